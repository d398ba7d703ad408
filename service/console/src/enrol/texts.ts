/** The page's texts, in the language that the person has chosen, or in the first of the browser's that is here. */
const english = {
  title: "Enrol your computer",
  about: (user: string) =>
    `This invitation is for ${user} and enrols one computer. Internal pages then open in the browser, through encrypted tunnels.`,
  validUntil: (time: string) => `Valid until ${time}`,
  loading: "Loading the invitation",
  install: "Install Culvert",
  installAsk: (inviter: string | null) =>
    `Ask ${inviter ?? "your administrator"} for the packages culvert-client and culvert-tray, for Debian 12 or 13 or for Ubuntu 24.04. Open a terminal in the folder with the two files, and run:`,
  installLine: (systems: string) => `Paste this line into a terminal on ${systems}:`,
  installKey: "The line checks its download. The packages are signed with the key of Culvert's releases:",
  installOther: "Culvert runs on Debian 12 and 13 and on Ubuntu 24.04. Open this link on such a computer.",
  installPhone: "Culvert does not run on phones. Open this link on the computer that you want to enrol.",
  enrol: "Enrol this computer",
  enrolAbout: (controller: string) =>
    `Culvert opens, shows the name of your organisation's controller, ${controller}, and asks for your consent.`,
  inTerminal: "If nothing opens, install Culvert first, or run this command in a terminal:",
  scan: "Scan the QR code",
  scanAbout:
    "Culvert shows a QR code. Scan it with an authenticator app on your phone, and type the code from the app.",
  elsewhere: "Open this page on another computer",
  qrCode: "QR code of this page's address",
  copyLink: "Copy the link",
  copyCommand: "Copy the command",
  copied: "Copied",
  enrolled: (device: string) => `${device} is enrolled`,
  enrolledAbout:
    "If Culvert shows a QR code, scan it with an authenticator app on your phone, and type the code from the app. The internal names that you may open are in Culvert's window.",
  usedTitle: "This invitation was already used",
  used: (time: string, device: string | null, inviter: string | null) =>
    `It enrolled ${device ?? "a computer"} on ${time}. For another computer, ask ${inviter ?? "your administrator"} for a new invitation.`,
  expiredTitle: "This invitation has expired",
  expired: (time: string, inviter: string | null) =>
    `It was valid until ${time}. Ask ${inviter ?? "your administrator"} for a new invitation.`,
  unknownTitle: "This invitation is not valid",
  unknown: "It was withdrawn, or the link was changed. Ask your administrator for a new invitation.",
  cutTitle: "A part of the link is missing",
  cut: "Copy the whole link from the message, and paste it into the address bar.",
  silentTitle: "The controller does not answer",
  silent: "This page asks again by itself. If this lasts, check the network of this computer.",
};

export type Texts = typeof english;

const german: Texts = {
  title: "Computer registrieren",
  about: (user) =>
    `Diese Einladung ist für ${user} und registriert einen Computer. Danach öffnen sich interne Seiten im Browser, durch verschlüsselte Tunnel.`,
  validUntil: (time) => `Gültig bis ${time}`,
  loading: "Die Einladung wird geladen",
  install: "Culvert installieren",
  installAsk: (inviter) =>
    `Die Pakete culvert-client und culvert-tray für Debian 12 oder 13 oder für Ubuntu 24.04 bei ${inviter ?? "der Administration"} anfordern. Im Ordner mit den beiden Dateien ein Terminal öffnen und ausführen:`,
  installLine: (systems) => `Diese Zeile in ein Terminal unter ${systems} einfügen:`,
  installKey:
    "Die Zeile prüft, was sie herunterlädt. Die Pakete sind signiert, mit dem Schlüssel der Culvert-Veröffentlichungen:",
  installOther:
    "Culvert läuft unter Debian 12 und 13 und unter Ubuntu 24.04. Diesen Link auf einem solchen Computer öffnen.",
  installPhone:
    "Culvert läuft nicht auf Telefonen. Diesen Link auf dem Computer öffnen, der registriert werden soll.",
  enrol: "Diesen Computer registrieren",
  enrolAbout: (controller) =>
    `Culvert öffnet sich, zeigt den Namen des Controllers der Organisation, ${controller}, und bittet um Zustimmung.`,
  inTerminal:
    "Falls sich nichts öffnet: zuerst Culvert installieren, oder diesen Befehl in einem Terminal ausführen:",
  scan: "QR-Code scannen",
  scanAbout:
    "Culvert zeigt einen QR-Code. Diesen mit einer Authenticator-App auf dem Telefon scannen und den Code der App eingeben.",
  elsewhere: "Diese Seite auf einem anderen Computer öffnen",
  qrCode: "QR-Code mit der Adresse dieser Seite",
  copyLink: "Link kopieren",
  copyCommand: "Befehl kopieren",
  copied: "Kopiert",
  enrolled: (device) => `${device} ist registriert`,
  enrolledAbout:
    "Falls Culvert einen QR-Code zeigt, diesen mit einer Authenticator-App auf dem Telefon scannen und den Code der App eingeben. Die freigegebenen internen Namen stehen im Fenster von Culvert.",
  usedTitle: "Diese Einladung ist schon verwendet",
  used: (time, device, inviter) =>
    `Sie hat am ${time} ${device === null ? "einen Computer" : `den Computer ${device}`} registriert. Für einen weiteren Computer eine neue Einladung bei ${inviter ?? "der Administration"} anfordern.`,
  expiredTitle: "Diese Einladung ist abgelaufen",
  expired: (time, inviter) =>
    `Sie war gültig bis ${time}. Eine neue Einladung bei ${inviter ?? "der Administration"} anfordern.`,
  unknownTitle: "Diese Einladung ist nicht gültig",
  unknown:
    "Sie wurde zurückgezogen, oder der Link ist verändert. Eine neue Einladung bei der Administration anfordern.",
  cutTitle: "Ein Teil des Links fehlt",
  cut: "Den ganzen Link aus der Nachricht kopieren und in die Adresszeile einfügen.",
  silentTitle: "Der Controller antwortet nicht",
  silent:
    "Diese Seite fragt von selbst wieder. Dauert es an, die Netzwerkverbindung dieses Computers prüfen.",
};

const LANGUAGES = { en: english, de: german };
type Code = keyof typeof LANGUAGES;
/** Each language by its own name, for a reader who cannot read the present one. */
export const NAMES: Readonly<Record<Code, string>> = { en: "English", de: "Deutsch" };

export interface Language {
  code: Code;
  texts: Texts;
  time: (iso: string) => string;
  /** "A, B, or C" */
  either: (names: string[]) => string;
}

// The console keeps its language here too.
const KEPT = "culvert-language";

export function languageOfPerson(): Language {
  return languageFor(navigator.languages, window.localStorage.getItem(KEPT));
}

export function choose(code: Code): Language {
  window.localStorage.setItem(KEPT, code);
  return languageFor(navigator.languages, code);
}

/** `chosen`: a language's code; the browser's region of it sets the form of dates. */
export function languageFor(preferred: readonly string[], chosen: string | null = null): Language {
  for (const tag of chosen === null ? preferred : [...preferred, chosen]) {
    const [code = ""] = tag.toLowerCase().split("-");
    if ((code === "de" || code === "en") && (chosen === null || code === chosen)) {
      const format = new Intl.DateTimeFormat(tag, { dateStyle: "medium", timeStyle: "short" });
      const list = new Intl.ListFormat(tag, { type: "disjunction" });
      return {
        code,
        texts: LANGUAGES[code],
        time: (iso) => format.format(new Date(iso)),
        either: (names) => list.format(names),
      };
    }
  }
  return languageFor(["en"]);
}
