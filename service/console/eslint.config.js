import js from "@eslint/js";
import lingui from "eslint-plugin-lingui";
import reactHooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

// Attributes and properties that a person reads.
const READ =
  "label|title|description|about|alt|act|add|places|submit|nothingFound|nothingFoundMessage|forWhat|restored|never|message|aria-label|aria-description|detail|remedy";
// A word, other than the product's name; and two words, which code rarely has.
const WORD = "/^(?!\\s*(Culvert|[A-Z0-9-]+)\\s*$).*\\p{L}{2}/su";
const WORDS = "/^(?!1px|0 |culvert-|apt |Neighbor |.*systemctl ).*\\p{L}{2}[\\p{L},.]* \\p{L}/su";
const TEXT = `:matches(Literal[value=${WORD}], TemplateLiteral:has(> TemplateElement[value.raw=${WORD}]))`;
const CHOSEN = `:matches(${TEXT}, ConditionalExpression > ${TEXT}, LogicalExpression > ${TEXT})`;
const UNTRANSLATED = [
  `JSXText[value=${WORD}]:not(JSXElement[openingElement.name.name="Trans"] JSXText)`,
  `JSXAttribute[name.name=/^(${READ})$/] > ${TEXT}`,
  `JSXAttribute[name.name=/^(${READ})$/] > JSXExpressionContainer > ${CHOSEN}`,
  // An example, such as corp.example, is the same in each language.
  "JSXAttribute[name.name=placeholder] Literal[value=/^\\p{Lu}|\\p{L} /u]",
  `JSXElement > JSXExpressionContainer > ${CHOSEN}`,
  `Property[key.name=/^(${READ})$/] > ${TEXT}:not(CallExpression[callee.name=msg] *)`,
  `:matches(Literal[value=${WORDS}], TemplateLiteral:has(> TemplateElement[value.raw=${WORDS}])):not(TaggedTemplateExpression *, CallExpression[callee.name=/^(plural|select)$/] *, NewExpression *, JSXAttribute[name.name=className] *)`,
];

export default tseslint.config(
  { ignores: ["dist", "node_modules", "src/api/schema.ts"] },
  {
    files: ["src/**/*.{ts,tsx}"],
    extends: [
      js.configs.recommended,
      tseslint.configs.strictTypeChecked,
      reactHooks.configs.flat.recommended,
    ],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      // A form's submission is a handler that awaits.
      "@typescript-eslint/no-misused-promises": ["error", { checksVoidReturn: { attributes: false } }],
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
    },
  },
  {
    files: ["src/**/*.{ts,tsx}"],
    // The page of an invitation has a table of its own, which the compiler checks.
    ignores: ["**/*.test.ts", "src/enrol/**", "src/theme.ts"],
    plugins: { lingui },
    rules: {
      // A message that is read when its file is loaded would be in English for ever.
      "lingui/t-call-in-function": "error",
      "lingui/no-single-variables-to-translate": "error",
      "lingui/no-trans-inside-trans": "error",
      "no-restricted-syntax": [
        "error",
        ...UNTRANSLATED.map((selector) => ({
          selector,
          message: "A text that a person reads stands in the catalogue: t`…`, msg`…` or <Trans> (README.md).",
        })),
      ],
    },
  },
);
