import {
  Alert,
  Anchor,
  Box,
  Button,
  Center,
  Code,
  CopyButton,
  Group,
  List,
  Loader,
  Paper,
  Stack,
  Text,
  ThemeIcon,
  Title,
} from "@mantine/core";
import { IconAlertTriangle, IconCheck, IconCopy } from "@tabler/icons-react";
import { QRCodeSVG } from "qrcode.react";
import { useEffect, useState, type ReactNode } from "react";

import { Card } from "../shared/Card";
import type { ComputerKind } from "./computer";
import { desktopLink, type Invitation } from "./invitation";
import { choose, languageOfPerson, NAMES, type Language, type Texts } from "./texts";
import { useInvitation, type Shown } from "./useInvitation";

const WIDTH_PX = 560;
const QR_PX = 180;
// As the release names its packages.
const INSTALL_FILES = "sudo apt install ./culvert-client_*.deb ./culvert-tray_*.deb";

/** The page that an invitation's link opens. It needs no sign-in. */
export function EnrolPage({
  invitation,
  computer,
}: {
  invitation: Invitation | null;
  computer: ComputerKind;
}) {
  const [language, setLanguage] = useState(languageOfPerson);
  const { code, texts } = language;
  useEffect(() => {
    document.documentElement.lang = code;
    document.title = `${texts.title} · Culvert`;
  }, [code, texts]);
  const others = (Object.keys(NAMES) as (keyof typeof NAMES)[]).filter((one) => one !== code);
  return (
    <Card
      maxWidth={WIDTH_PX}
      beside={others.map((one) => (
        <Anchor
          key={one}
          component="button"
          type="button"
          size="sm"
          lang={one}
          onClick={() => setLanguage(choose(one))}
        >
          {NAMES[one]}
        </Anchor>
      ))}
    >
      <Content invitation={invitation} language={language} computer={computer} />
    </Card>
  );
}

function Content({
  invitation,
  language,
  computer,
}: {
  invitation: Invitation | null;
  language: Language;
  computer: ComputerKind;
}) {
  const { texts } = language;
  const [begun, setBegun] = useState<number | null>(null);
  const answer = useInvitation(invitation, begun);
  // A page that has shown the steps also shows their end.
  const [wasOpen, setWasOpen] = useState(false);
  if (invitation === null) return <Fault title={texts.cutTitle} text={texts.cut} />;
  if (answer === "loading") {
    return (
      <Center mih={120} role="status" aria-label={texts.loading}>
        <Loader />
      </Center>
    );
  }
  if (answer === "unknown") return <Fault title={texts.unknownTitle} text={texts.unknown} />;
  if (answer === "silent") return <Fault title={texts.silentTitle} text={texts.silent} />;
  const { user, user_display_name, device, invited_by, expires_at, used_at } = answer;
  if (answer.expired) {
    const text = texts.expired(language.time(expires_at), invited_by);
    return <Fault title={texts.expiredTitle} text={text} />;
  }
  if (used_at !== null) {
    if (wasOpen) return <Enrolled name={device ?? user} texts={texts} />;
    return <Fault title={texts.usedTitle} text={texts.used(language.time(used_at), device, invited_by)} />;
  }
  if (!wasOpen) setWasOpen(true);
  return (
    <>
      <Stack gap={4} mb="lg">
        <Title order={1} size="h2">
          {texts.title}
        </Title>
        <Text>{texts.about(user_display_name ?? user)}</Text>
        <Text c="dimmed" size="sm">
          {texts.validUntil(language.time(expires_at))}
        </Text>
      </Stack>
      {computer === "linux" ? (
        <Steps
          invitation={invitation}
          shown={answer}
          language={language}
          onBegin={() => setBegun(Date.now())}
        />
      ) : (
        <Elsewhere text={computer === "phone" ? texts.installPhone : texts.installOther} texts={texts} />
      )}
    </>
  );
}

function Steps({
  invitation,
  shown: { install, invited_by },
  language,
  onBegin,
}: {
  invitation: Invitation;
  shown: Shown;
  language: Language;
  onBegin: () => void;
}) {
  const { texts } = language;
  return (
    <List
      type="ordered"
      listStyleType="none"
      spacing="lg"
      withPadding={false}
      styles={{ itemWrapper: { display: "block" }, itemLabel: { display: "block" } }}
    >
      <Step number={1} title={texts.install}>
        <Text size="sm" mb={4} className="name">
          {install === null
            ? texts.installAsk(invited_by)
            : texts.installLine(language.either(install.systems))}
        </Text>
        <Command text={install?.command ?? INSTALL_FILES} texts={texts} />
        {install !== null && (
          <Text size="xs" c="dimmed" mt="xs">
            {texts.installKey} <span className="name">{install.key.match(/.{4}/g)?.join(" ")}</span>
          </Text>
        )}
      </Step>
      <Step number={2} title={texts.enrol}>
        <Stack gap="xs" align="flex-start">
          <Text size="sm">{texts.enrolAbout(window.location.host)}</Text>
          <Button
            component="a"
            href={desktopLink(window.location.origin, invitation)}
            onClick={onBegin}
            size="md"
          >
            {texts.enrol}
          </Button>
          <Box w="100%" onCopy={onBegin}>
            <Text size="sm" mb={4}>
              {texts.inTerminal}
            </Text>
            <Command text={`culvert enroll '${window.location.href}'`} texts={texts} onCopied={onBegin} />
          </Box>
        </Stack>
      </Step>
      <Step number={3} title={texts.scan}>
        <Text size="sm">{texts.scanAbout}</Text>
      </Step>
    </List>
  );
}

function Step({ number, title, children }: { number: number; title: string; children: ReactNode }) {
  return (
    <List.Item>
      <Group align="flex-start" wrap="nowrap" gap="md">
        <ThemeIcon radius="xl" variant="light" size={30} aria-hidden>
          <Text fw={600} size="sm">
            {number}
          </Text>
        </ThemeIcon>
        <Box flex={1} miw={0}>
          <Title order={2} size="h5" mb={4}>
            {title}
          </Title>
          {children}
        </Box>
      </Group>
    </List.Item>
  );
}

function Command({ text, texts, onCopied }: { text: string; texts: Texts; onCopied?: () => void }) {
  return (
    <>
      <Code block fz="xs" style={{ overflowWrap: "anywhere", whiteSpace: "pre-wrap" }}>
        {text}
      </Code>
      <Copy
        value={text}
        label={texts.copyCommand}
        done={texts.copied}
        {...(onCopied !== undefined && { onCopied })}
      />
    </>
  );
}

/** For a computer that can't be enrolled: how the link comes to one that can. */
function Elsewhere({ text, texts }: { text: string; texts: Texts }) {
  const link = window.location.href;
  return (
    <Stack>
      <Alert color="blue" icon={<IconAlertTriangle aria-hidden />}>
        {text}
      </Alert>
      <Title order={2} size="h5">
        {texts.elsewhere}
      </Title>
      <Center>
        <Paper p="md" bg="white" withBorder>
          <QRCodeSVG value={link} size={QR_PX} title={texts.qrCode} />
        </Paper>
      </Center>
      <Center>
        <Copy value={link} label={texts.copyLink} done={texts.copied} />
      </Center>
    </Stack>
  );
}

function Enrolled({ name, texts }: { name: string; texts: Texts }) {
  return (
    <Stack role="status" gap="sm">
      <ThemeIcon radius="xl" size={48}>
        <IconCheck aria-hidden />
      </ThemeIcon>
      <Title order={1} size="h2" className="name">
        {texts.enrolled(name)}
      </Title>
      <Text>{texts.enrolledAbout}</Text>
    </Stack>
  );
}

function Fault({ title, text }: { title: string; text: string }) {
  return (
    <Stack gap="xs" role="alert">
      <Title order={1} size="h2">
        {title}
      </Title>
      <Text className="name">{text}</Text>
    </Stack>
  );
}

function Copy({
  value,
  label,
  done,
  onCopied,
}: {
  value: string;
  label: string;
  done: string;
  onCopied?: () => void;
}) {
  return (
    <CopyButton value={value}>
      {({ copied, copy }) => (
        <Button
          mt="xs"
          variant="default"
          size="xs"
          leftSection={copied ? <IconCheck size={14} /> : <IconCopy size={14} />}
          onClick={() => {
            copy();
            onCopied?.();
          }}
        >
          {copied ? done : label}
        </Button>
      )}
    </CopyButton>
  );
}
