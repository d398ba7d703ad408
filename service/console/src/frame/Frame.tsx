import { i18n } from "@lingui/core";
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import {
  ActionIcon,
  Alert,
  AppShell,
  Burger,
  Button,
  Center,
  Group,
  Image,
  Kbd,
  Stack,
  Text,
  Title,
  UnstyledButton,
  useMantineColorScheme,
  useComputedColorScheme,
} from "@mantine/core";
import { useDisclosure, useOs } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { IconMoon, IconPlugConnectedX, IconSearch, IconSun } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Outlet, useLocation } from "@tanstack/react-router";
import { Suspense, useEffect, useRef, type ReactNode } from "react";

import { useChanges } from "../live/changes";
import { useLink } from "../live/live";
import { ProofPrompt } from "../session/ProofPrompt";
import { sessionQuery, type Session } from "../session/session";
import { view } from "../shared/view";
import { PLACES } from "./navigation";
import { AccountMenu } from "./AccountMenu";
import { NoticeAlert } from "./NoticeAlert";
import { CommandPalette, useCommandPalette } from "./CommandPalette";
import { ProblemNote } from "../shared/ProblemNote";
import { Loading } from "../shared/Loading";
import { NavLinkTo } from "../shared/links";

const SignInPage = view(() => import("../session/SignInPage"), "SignInPage");

/** The frame of every view for a signed-in administrator; for others, the sign-in page. */
export function Frame({ children = <Outlet /> }: { children?: ReactNode }) {
  const session = useQuery(sessionQuery);
  if (session.isPending) return <Loading forWhat={t`the console`} whole />;
  if (session.data) return <Framed session={session.data}>{children}</Framed>;
  if (session.isError)
    return (
      <Center component="main" mih="100vh" p="md">
        <Stack align="flex-start" maw={480}>
          <Title size="h2">Culvert</Title>
          <ProblemNote error={session.error} />
          <Button onClick={() => void session.refetch()} loading={session.isFetching}>
            <Trans>Try again</Trans>
          </Button>
        </Stack>
      </Center>
    );
  return (
    <Suspense fallback={<Loading forWhat={t`the console`} whole />}>
      <SignInPage />
    </Suspense>
  );
}

function Framed({ session, children }: { session: Session; children: ReactNode }) {
  const [opened, { toggle, close }] = useDisclosure();
  const { pathname } = useLocation();
  const palette = useCommandPalette();
  useChanges();
  return (
    <AppShell
      header={{ height: 56 }}
      navbar={{ width: 232, breakpoint: "sm", collapsed: { mobile: !opened } }}
      padding={{ base: "md", sm: "xl" }}
    >
      <AppShell.Header>
        <Group h="100%" px="md" justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap">
            <Burger opened={opened} onClick={toggle} hiddenFrom="sm" size="sm" aria-label={t`Navigation`} />
            <Image src="/console/icon.svg" alt="" w={24} h={24} />
            <Text fw={600}>Culvert</Text>
          </Group>
          <Group gap="xs" wrap="nowrap">
            <CommandsButton onClick={palette.onOpen} />
            <SchemeButton />
            <AccountMenu session={session} />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="sm" aria-label={t`Main`}>
        {PLACES.map(({ label, to, also = [], icon: Icon }) => (
          <NavLinkTo
            key={to}
            to={to}
            label={i18n._(label)}
            leftSection={<Icon size={18} stroke={1.6} />}
            active={[to, ...also].some((place) => isAt(pathname, place))}
            aria-current={[to, ...also].some((place) => isAt(pathname, place)) ? "page" : undefined}
            onClick={close}
            variant="light"
            mb={2}
          />
        ))}
      </AppShell.Navbar>
      <AppShell.Main>
        <Lost />
        <NoticeAlert name={session.name} />
        {children}
      </AppShell.Main>
      <CommandPalette {...palette} />
      <ProofPrompt session={session} />
    </AppShell>
  );
}

function isAt(pathname: string, place: string): boolean {
  return place === "/" ? pathname === "/" : pathname.startsWith(place);
}

function Lost() {
  const link = useLink();
  const wasLost = useRef(false);
  useEffect(() => {
    if (link === "live" && wasLost.current)
      notifications.show({ message: t`Connected to the controller again. This page is up to date.` });
    wasLost.current = link === "lost";
  }, [link]);
  if (link !== "lost") return null;
  return (
    <Alert
      color="orange"
      variant="light"
      mb="md"
      className="list"
      icon={<IconPlugConnectedX />}
      title={t`The connection to the controller is lost`}
      role="status"
    >
      <Trans>This page may be out of date. It reconnects by itself.</Trans>
    </Alert>
  );
}

function CommandsButton({ onClick }: { onClick: () => void }) {
  const os = useOs({ getValueInEffect: false });
  const modifier = os === "macos" || os === "ios" ? "⌘" : t`Ctrl+`;
  return (
    <>
      <UnstyledButton
        visibleFrom="sm"
        onClick={onClick}
        px="sm"
        py={5}
        bd="1px solid var(--mantine-color-default-border)"
        bdrs="md"
      >
        <Group gap="xs" wrap="nowrap" c="dimmed">
          <IconSearch size={15} />
          <Text size="sm">
            <Trans>Search or jump to…</Trans>
          </Text>
          <Kbd size="xs">{modifier}K</Kbd>
        </Group>
      </UnstyledButton>
      <ActionIcon
        hiddenFrom="sm"
        variant="default"
        size="lg"
        onClick={onClick}
        aria-label={t`Search or jump to`}
      >
        <IconSearch size={18} />
      </ActionIcon>
    </>
  );
}

function SchemeButton() {
  const { setColorScheme } = useMantineColorScheme();
  const next = useComputedColorScheme() === "dark" ? "light" : "dark";
  const label = next === "dark" ? t`Use the dark theme` : t`Use the light theme`;
  return (
    <ActionIcon
      variant="default"
      size="lg"
      onClick={() => setColorScheme(next)}
      aria-label={label}
      title={label}
    >
      {next === "dark" ? <IconMoon size={18} /> : <IconSun size={18} />}
    </ActionIcon>
  );
}
