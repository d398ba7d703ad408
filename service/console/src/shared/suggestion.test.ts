import { expect, test } from "vitest";

import { suggestedLogin, suggestedName } from "./suggestion";

test("a full name suggests a short one that the API takes", () => {
  expect(suggestedName("Wiki.corp.example")).toBe("wiki");
  expect(suggestedName("*.dev.corp.example")).toBe("all-dev");
  expect(suggestedName("_x_.corp.example")).toBe("x");
  expect(suggestedName("")).toBe("");
  expect(suggestedName("BÜCHER-Straße.corp.example")).toBe("bucher-strasse");
});

test("an e-mail address suggests a login name that the API takes", () => {
  expect(suggestedLogin("Alice@corp.example")).toBe("alice");
  expect(suggestedLogin(" bob.smith+vpn@corp.example")).toBe("bob.smith");
  expect(suggestedLogin("_Jürgen_Groß@corp.example")).toBe("jurgen_gross");
  expect(suggestedLogin("")).toBe("");
});
