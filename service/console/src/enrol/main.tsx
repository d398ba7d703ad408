import "@mantine/core/styles.css";
import "../app.css";

import { MantineProvider } from "@mantine/core";
import { setNonce } from "get-nonce";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { readable, theme } from "../theme";
import { thisComputer } from "./computer";
import { EnrolPage } from "./EnrolPage";
import { readInvitation } from "./invitation";

const nonce = document.querySelector<HTMLMetaElement>("meta[property=csp-nonce]")?.nonce ?? "";
setNonce(nonce);

// Another invitation in the same tab changes the fragment alone.
window.addEventListener("hashchange", () => window.location.reload());

const root = document.getElementById("root");
if (root === null) throw new Error("enroll.html has no #root");
createRoot(root).render(
  <StrictMode>
    <MantineProvider
      theme={theme}
      defaultColorScheme="auto"
      cssVariablesResolver={readable}
      getStyleNonce={() => nonce}
    >
      <EnrolPage invitation={readInvitation(window.location.hash)} computer={thisComputer()} />
    </MantineProvider>
  </StrictMode>,
);
