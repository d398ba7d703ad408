import {
  Badge,
  Button,
  Chip,
  createTheme,
  Input,
  NavLink,
  SegmentedControl,
  Table,
  type CSSVariablesResolver,
  type MantineColorsTuple,
} from "@mantine/core";

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

// From text to the darkest ground.
const dark: MantineColorsTuple = [
  "#edf1ef",
  "#c9d1cd",
  "#a3aca7",
  "#7d8782",
  "#343a3e",
  "#2c3236",
  "#262b2f",
  "#1d2124",
  "#15181a",
  "#101214",
];

/** A control's height, in pixels, at the usual size (docs/design.md). */
const CONTROL = "32px";
/** The note's colour: on a list's head, on disabled controls. */
const NOTE = "var(--mantine-color-dimmed)";
/** Open lists and menus belong to the page's main landmark. */
const IN_MAIN = { portalProps: { target: "main" } };
/** The list itself scrolls: a scrolling box around it would need the focus, which the field keeps. */
const CHOICES = {
  defaultProps: {
    withScrollArea: false,
    styles: { options: { maxHeight: 220, overflowY: "auto" }, option: { overflowWrap: "anywhere" } },
  },
};

export const theme = createTheme({
  colors: { culvert, dark },
  primaryColor: "culvert",
  primaryShade: { light: 7, dark: 7 },
  autoContrast: true,
  defaultRadius: "md",
  cursorType: "pointer",
  fontFamily: "Inter, system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
  fontSizes: { xs: "12.5px", sm: "13.5px", md: "14px", lg: "16px", xl: "20px" },
  headings: {
    fontWeight: "600",
    sizes: {
      h1: { fontSize: "20px" },
      h2: { fontSize: "20px" },
      h3: { fontSize: "20px" },
      h4: { fontSize: "14px" },
      h5: { fontSize: "14px" },
    },
  },
  respectReducedMotion: true,
  components: {
    // Plain objects: the first view loads no field with choices and no menu.
    Autocomplete: CHOICES,
    Combobox: { defaultProps: IN_MAIN },
    Menu: { defaultProps: { withInitialFocusPlaceholder: false, ...IN_MAIN } },
    MultiSelect: CHOICES,
    Select: CHOICES,
    TagsInput: CHOICES,
    // A list has a row, also where there is nothing to choose.
    ComboboxEmpty: { defaultProps: { role: "option", "aria-disabled": true } },
    // A long name takes two lines.
    Pill: {
      styles: {
        root: { flex: "0 1 auto", height: "auto", borderRadius: 12 },
        label: { lineHeight: 1.4, paddingBlock: 2, whiteSpace: "normal" },
        // Without a width of its own, the cross's drawing widens the pill.
        remove: { flex: "none", width: "2em" },
      },
    },
    // The text takes another line instead of more room than the box has.
    Alert: { styles: { body: { minWidth: 0 }, message: { minWidth: 0 } } },
    // A word that is cut says nothing.
    Badge: Badge.extend({ defaultProps: { miw: "max-content" } }),
    Button: Button.extend({
      vars: (_, { size = "sm" }) => ({ root: size === "sm" ? { "--button-height": CONTROL } : {} }),
    }),
    Chip: Chip.extend({ defaultProps: { variant: "outline" } }),
    Input: Input.extend({
      vars: (_, { size = "sm" }) => ({ wrapper: size === "sm" ? { "--input-height": CONTROL } : {} }),
    }),
    // A hint below its field: fields side by side stand in a line, with hints or without.
    InputWrapper: Input.Wrapper.extend({
      defaultProps: { inputWrapperOrder: ["label", "input", "description", "error"] },
      styles: {
        label: { fontWeight: 600 },
        description: { fontSize: "var(--mantine-font-size-xs)" },
        error: { fontSize: "var(--mantine-font-size-xs)" },
      },
    }),
    NavLink: NavLink.extend({
      styles: { root: { borderRadius: "var(--mantine-radius-md)" }, label: { fontSize: 14 } },
    }),
    SegmentedControl: SegmentedControl.extend({
      styles: {
        root: {
          backgroundColor: "var(--culvert-ground)",
          border: "1px solid var(--mantine-color-default-border)",
          padding: 3,
        },
        indicator: { backgroundColor: "var(--culvert-chosen)" },
      },
    }),
    Table: Table.extend({
      styles: { th: { color: NOTE, fontWeight: 500, fontSize: "var(--mantine-font-size-xs)" } },
    }),
  },
});

/** The colours' roles of docs/design.md, in the library's names; all with a contrast of at least 4.5:1 (WCAG 2.2, 1.4.3). */
export const readable: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    "--culvert-ground": "#f4f6f5",
    "--culvert-chosen": "#ffffff",
    "--mantine-color-text": "#1a1f1c",
    "--mantine-color-default-border": "#dbe0dd",
    "--mantine-color-default-hover": "#f4f6f5",
    "--mantine-color-dimmed": "#5a635e",
    "--mantine-color-placeholder": "#5a635e",
    "--mantine-color-disabled-color": "#5a635e",
    "--mantine-color-anchor": "#187a45",
    "--mantine-color-error": "#b02525",
    "--mantine-color-red-text": "#b02525",
    "--mantine-color-red-light": "#fdeceb",
    "--mantine-color-red-light-color": "#b02525",
    "--mantine-color-red-filled": "#b02525",
    "--mantine-color-red-filled-hover": "#962020",
    "--mantine-color-yellow-light": "#fff3d9",
    "--mantine-color-yellow-light-color": "#7a4a00",
    "--mantine-color-orange-light": "#fff3d9",
    "--mantine-color-orange-light-color": "#7a4a00",
    "--mantine-color-culvert-light": "#e7f5ed",
    "--mantine-color-culvert-light-hover": "#d8eee2",
    "--mantine-color-culvert-light-color": "#116137",
  },
  dark: {
    "--culvert-ground": "#15181a",
    "--culvert-chosen": "#343a3e",
    "--mantine-color-dimmed": "#a3aca7",
    "--mantine-color-placeholder": "#a3aca7",
    "--mantine-color-disabled-color": "#a3aca7",
    "--mantine-color-anchor": "#72c597",
    "--mantine-color-error": "#ff9c96",
    "--mantine-color-red-text": "#ff9c96",
    "--mantine-color-red-light": "#3d1d1c",
    "--mantine-color-red-light-color": "#ff9c96",
    "--mantine-color-red-filled": "#b02525",
    "--mantine-color-red-filled-hover": "#962020",
    "--mantine-color-yellow-light": "#392c10",
    "--mantine-color-yellow-light-color": "#f2c063",
    "--mantine-color-orange-light": "#392c10",
    "--mantine-color-orange-light-color": "#f2c063",
    "--mantine-color-culvert-light": "#173524",
    "--mantine-color-culvert-light-hover": "#1d4430",
    "--mantine-color-culvert-light-color": "#8fd6ad",
  },
});
