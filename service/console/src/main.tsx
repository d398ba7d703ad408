import "@mantine/core/styles.css";
import "@mantine/notifications/styles.css";
import "@mantine/spotlight/styles.css";
import "./app.css";

import { MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { setNonce } from "get-nonce";
import { StrictMode } from "react";

import { problemOf } from "./api/problem";
import { lookAhead } from "./live/ahead";
import { createConsole } from "./router";
import { again } from "./shared/view";
import { readable, theme } from "./theme";

const PATIENCE_MS = 300;

// The one that the controller has put into this page, for the style elements that components write.
const nonce = document.querySelector<HTMLMetaElement>("meta[property=csp-nonce]")?.nonce ?? "";
setNonce(nonce);

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      // What was refused is refused again.
      retry: (count, error) => problemOf(error).status === 0 && count < 2,
    },
  },
});
const router = createConsole(queries);
const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no #root");

// Loaded beside and not with the rest: where it begins it makes errors, and a browser that is watched would read all of that
// again to say where they are from.
async function draw(at: HTMLElement) {
  const { createRoot } = await again(() => import("react-dom/client"));
  createRoot(at).render(
    <StrictMode>
      <MantineProvider
        theme={theme}
        defaultColorScheme="auto"
        cssVariablesResolver={readable}
        getStyleNonce={() => nonce}
      >
        <QueryClientProvider client={queries}>
          <Notifications position="bottom-right" />
          <RouterProvider router={router} />
        </QueryClientProvider>
      </MantineProvider>
    </StrictMode>,
  );
}

// Once, unless the controller takes its time.
const late = new Promise((resolve) => setTimeout(resolve, PATIENCE_MS));
void Promise.race([lookAhead(queries), late]).then(() => draw(root));
