import "@mantine/core/styles.css";
import "@mantine/notifications/styles.css";
import "@mantine/spotlight/styles.css";
import "./app.css";

import { i18n } from "@lingui/core";
import { t } from "@lingui/core/macro";
import { I18nProvider, useLingui } from "@lingui/react";
import { MantineProvider, mergeThemeOverrides, Notification } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { setNonce } from "get-nonce";
import { StrictMode } from "react";

import { ProblemError } from "./api/problem";
import { lookAhead } from "./live/ahead";
import { speak } from "./locale/language";
import { createConsole } from "./router";
import { again } from "./shared/view";
import { readable, theme } from "./theme";

const PATIENCE_MS = 300;

// The controller's nonce of this page, for the style elements that components write.
const nonce = document.querySelector<HTMLMetaElement>("meta[property=csp-nonce]")?.nonce ?? "";
setNonce(nonce);

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      // A refusal stays a refusal; only an unreachable controller is asked again.
      retry: (count, error) => !(error instanceof ProblemError) && count < 2,
    },
  },
});
const router = createConsole(queries);
const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no #root");

// Without its catalogue the page is in English.
const spoken = speak(document.documentElement.lang).catch(() => {
  document.documentElement.lang = "en";
  return speak("en");
});

// react-dom is a file of its own: it makes errors as it starts, and a browser with open developer tools would read the whole
// file again to locate them.
async function draw(at: HTMLElement) {
  await spoken;
  const { createRoot } = await again(() => import("react-dom/client"));
  createRoot(at).render(
    <StrictMode>
      <I18nProvider i18n={i18n}>
        <Console />
      </I18nProvider>
    </StrictMode>,
  );
}

function Console() {
  useLingui();
  const named = mergeThemeOverrides(theme, {
    components: {
      Notification: Notification.extend({ defaultProps: { closeButtonProps: { "aria-label": t`Dismiss` } } }),
    },
  });
  return (
    <MantineProvider
      theme={named}
      defaultColorScheme="auto"
      cssVariablesResolver={readable}
      getStyleNonce={() => nonce}
    >
      <QueryClientProvider client={queries}>
        <Notifications position="bottom-right" />
        <RouterProvider router={router} />
      </QueryClientProvider>
    </MantineProvider>
  );
}

// Draws once the session is known, or after PATIENCE_MS.
const late = new Promise((resolve) => setTimeout(resolve, PATIENCE_MS));
void Promise.race([lookAhead(queries), late]).then(() => draw(root));
