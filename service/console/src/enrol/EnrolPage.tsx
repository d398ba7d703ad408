import {
  Alert,
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
import type { Language, Texts } from "./texts";
import { useInvitation, type Shown } from "./useInvitation";

const WIDTH_PX = 560;
const QR_PX = 180;

/** The page that an invitation's link opens. It needs no sign-in. */
export function EnrolPage({
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
  useEffect(() => {
    document.documentElement.lang = language.code;
    document.title = `${texts.title} · Culvert`;
  }, [language, texts]);

  if (invitation === null)
    return <Card maxWidth={WIDTH_PX}>{<Fault title={texts.cutTitle} text={texts.cut} />}</Card>;
  if (answer === "loading") {
    return (
      <Card maxWidth={WIDTH_PX}>
        <Center mih={120} role="status" aria-label={texts.loading}>
          <Loader />
        </Center>
      </Card>
    );
  }
  if (answer === "unknown") {
    return <Card maxWidth={WIDTH_PX}>{<Fault title={texts.unknownTitle} text={texts.unknown} />}</Card>;
  }
  if (answer === "silent") {
    return (
      <Card maxWidth={WIDTH_PX}>
        <Fault title={texts.silentTitle} text={texts.silent} />
      </Card>
    );
  }
  if (answer.expired) {
    const text = texts.expired(language.time(answer.expires_at));
    return <Card maxWidth={WIDTH_PX}>{<Fault title={texts.expiredTitle} text={text} />}</Card>;
  }
  if (answer.used_at !== null) {
    return (
      <Card maxWidth={WIDTH_PX}>
        {begun === null ? (
          <Used shown={answer} language={language} />
        ) : (
          <Enrolled shown={answer} texts={texts} />
        )}
      </Card>
    );
  }
  return (
    <Card maxWidth={WIDTH_PX}>
      <Stack gap={4} mb="lg">
        <Title order={1} size="h2">
          {texts.title}
        </Title>
        <Text>{texts.about(answer.user_display_name ?? answer.user)}</Text>
        <Text c="dimmed" size="sm">
          {texts.validUntil(language.time(answer.expires_at))}
        </Text>
      </Stack>
      {computer === "linux" ? (
        <Steps
          invitation={invitation}
          install={answer.install}
          language={language}
          onBegin={() => setBegun(Date.now())}
          begun={begun !== null}
        />
      ) : (
        <Elsewhere text={computer === "phone" ? texts.installPhone : texts.installOther} texts={texts} />
      )}
    </Card>
  );
}

function Steps({
  invitation,
  install,
  language,
  begun,
  onBegin,
}: {
  invitation: Invitation;
  install: Shown["install"];
  language: Language;
  begun: boolean;
  onBegin: () => void;
}) {
  const { texts } = language;
  const link = desktopLink(window.location.origin, invitation);
  const command = `culvert enroll '${window.location.href}'`;
  return (
    <List
      type="ordered"
      listStyleType="none"
      spacing="lg"
      withPadding={false}
      styles={{ itemWrapper: { display: "block" }, itemLabel: { display: "block" } }}
    >
      <Step number={1} title={texts.install}>
        {install === null ? (
          <Text size="sm">{texts.installLinux}</Text>
        ) : (
          <>
            <Text size="sm" mb={4}>
              {texts.installLine(language.either(install.systems))}
            </Text>
            <Command text={install.command} texts={texts} />
            <Text size="xs" c="dimmed" mt="xs">
              {texts.installKey} <span className="name">{install.key.match(/.{4}/g)?.join(" ")}</span>
            </Text>
          </>
        )}
      </Step>
      <Step number={2} title={texts.enrol}>
        <Stack gap="xs" align="flex-start">
          <Text size="sm">{texts.enrolAbout}</Text>
          <Button component="a" href={link} onClick={onBegin} size="md">
            {texts.enrol}
          </Button>
          {begun && (
            <Box role="status" w="100%">
              <Text size="sm" mb={4}>
                {texts.nothing}
              </Text>
              <Command text={command} texts={texts} />
            </Box>
          )}
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

function Command({ text, texts }: { text: string; texts: Texts }) {
  return (
    <>
      <Code block fz="xs" style={{ overflowWrap: "anywhere", whiteSpace: "pre-wrap" }}>
        {text}
      </Code>
      <Copy value={text} label={texts.copyCommand} done={texts.copied} />
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

function Enrolled({ shown, texts }: { shown: Shown; texts: Texts }) {
  return (
    <Stack role="status" gap="sm">
      <ThemeIcon radius="xl" size={48}>
        <IconCheck aria-hidden />
      </ThemeIcon>
      <Title order={1} size="h2" className="name">
        {texts.enrolled(shown.device ?? shown.user)}
      </Title>
      <Text>{texts.enrolledAbout}</Text>
    </Stack>
  );
}

function Used({ shown, language }: { shown: Shown; language: Language }) {
  const { texts } = language;
  const time = language.time(shown.used_at ?? shown.expires_at);
  const text = shown.device === null ? texts.used(time) : texts.usedBy(time, shown.device);
  return <Fault title={texts.usedTitle} text={text} />;
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

function Copy({ value, label, done }: { value: string; label: string; done: string }) {
  return (
    <CopyButton value={value}>
      {({ copied, copy }) => (
        <Button
          mt="xs"
          variant="default"
          size="xs"
          leftSection={copied ? <IconCheck size={14} /> : <IconCopy size={14} />}
          onClick={copy}
        >
          {copied ? done : label}
        </Button>
      )}
    </CopyButton>
  );
}
