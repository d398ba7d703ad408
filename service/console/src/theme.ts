import { Badge, createTheme, type CSSVariablesResolver, type MantineColorsTuple } from "@mantine/core";

// The tray's green, from light to dark.
const culvert: MantineColorsTuple = [
  "#e9f7ef",
  "#cfeadb",
  "#a3d9ba",
  "#72c597",
  "#4bb47a",
  "#2fa566",
  "#1f8f52",
  "#187a45",
  "#116137",
  "#0a4527",
];

export const theme = createTheme({
  colors: { culvert },
  primaryColor: "culvert",
  primaryShade: { light: 7, dark: 7 },
  autoContrast: true,
  defaultRadius: "md",
  cursorType: "pointer",
  fontFamily: "Inter, system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
  headings: { fontWeight: "600" },
  respectReducedMotion: true,
  components: {
    // A word that is cut says nothing.
    Badge: Badge.extend({ defaultProps: { miw: "max-content" } }),
  },
});

/** Replaces the library's greys and reds with a contrast below 4.5:1 (WCAG 2.2, 1.4.3). */
export const readable: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    "--mantine-color-dimmed": "#5c636a",
    "--mantine-color-placeholder": "#6c737a",
    "--mantine-color-error": "#c92a2a",
    "--mantine-color-red-text": "#c92a2a",
    "--mantine-color-red-light-color": "#b02525",
    "--mantine-color-red-filled": "#c92a2a",
    "--mantine-color-red-filled-hover": "#b02525",
    "--mantine-color-yellow-light-color": "#7a4a00",
    "--mantine-color-orange-light-color": "#8f3e00",
    "--mantine-color-culvert-light-color": "#116137",
  },
  dark: {
    "--mantine-color-dimmed": "#a6a7ab",
    "--mantine-color-placeholder": "#909296",
    "--mantine-color-error": "#ff8787",
    "--mantine-color-red-text": "#ff8787",
    "--mantine-color-red-filled": "#c92a2a",
    "--mantine-color-red-filled-hover": "#b02525",
    "--mantine-color-culvert-light-color": "#a3d9ba",
  },
});
