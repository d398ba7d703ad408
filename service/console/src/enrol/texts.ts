/** The page's texts, in the first of the browser's languages that is here. */
const english = {
  title: "Enrol your computer",
  about: (user: string) =>
    `This invitation is for ${user} and enrols one computer. Internal pages then open in the browser, through encrypted tunnels.`,
  validUntil: (time: string) => `Valid until ${time}`,
  loading: "Loading the invitation",
  install: "Install Culvert",
  installLinux: "Install the packages culvert-client and culvert-tray from your administrator.",
  installLine: (systems: string) => `Paste this line into a terminal on ${systems}:`,
  installKey: "The line checks its download. The packages are signed with the key of Culvert's releases:",
  installOther: "Culvert runs on Debian 12 and 13 and on Ubuntu 24.04. Open this link on such a computer.",
  installPhone: "Culvert does not run on phones. Open this link on the computer that you want to enrol.",
  enrol: "Enrol this computer",
  enrolAbout: "Culvert opens, shows this controller's name, and asks for your consent.",
  nothing: "Nothing happens? Run this command in a terminal:",
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
    "Culvert now shows a QR code. Scan it with an authenticator app on your phone, and type the code from the app.",
  usedTitle: "This invitation was already used",
  used: (time: string) =>
    `It enrolled a computer on ${time}. For another computer, ask your administrator for a new invitation.`,
  usedBy: (time: string, device: string) =>
    `It enrolled ${device} on ${time}. For another computer, ask your administrator for a new invitation.`,
  expiredTitle: "This invitation has expired",
  expired: (time: string) => `It was valid until ${time}. Ask your administrator for a new invitation.`,
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
  installLinux:
    "Die Pakete culvert-client und culvert-tray installieren; die Administration stellt sie bereit.",
  installLine: (systems) => `Diese Zeile in ein Terminal unter ${systems} einfügen:`,
  installKey:
    "Die Zeile prüft, was sie herunterlädt. Die Pakete sind signiert, mit dem Schlüssel der Culvert-Veröffentlichungen:",
  installOther:
    "Culvert läuft unter Debian 12 und 13 und unter Ubuntu 24.04. Diesen Link auf einem solchen Computer öffnen.",
  installPhone:
    "Culvert läuft nicht auf Telefonen. Diesen Link auf dem Computer öffnen, der registriert werden soll.",
  enrol: "Diesen Computer registrieren",
  enrolAbout: "Culvert öffnet sich, zeigt den Namen dieses Controllers und bittet um Zustimmung.",
  nothing: "Nichts passiert? Diesen Befehl in einem Terminal ausführen:",
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
    "Culvert zeigt jetzt einen QR-Code. Diesen mit einer Authenticator-App auf dem Telefon scannen und den Code der App eingeben.",
  usedTitle: "Diese Einladung ist schon verwendet",
  used: (time) =>
    `Sie hat am ${time} einen Computer registriert. Für einen weiteren Computer die Administration um eine neue Einladung bitten.`,
  usedBy: (time, device) =>
    `Sie hat am ${time} den Computer ${device} registriert. Für einen weiteren Computer die Administration um eine neue Einladung bitten.`,
  expiredTitle: "Diese Einladung ist abgelaufen",
  expired: (time) => `Sie war gültig bis ${time}. Die Administration um eine neue Einladung bitten.`,
  unknownTitle: "Diese Einladung ist nicht gültig",
  unknown:
    "Sie wurde zurückgezogen, oder der Link ist verändert. Die Administration um eine neue Einladung bitten.",
  cutTitle: "Ein Teil des Links fehlt",
  cut: "Den ganzen Link aus der Nachricht kopieren und in die Adresszeile einfügen.",
  silentTitle: "Der Controller antwortet nicht",
  silent:
    "Diese Seite fragt von selbst wieder. Dauert es an, die Netzwerkverbindung dieses Computers prüfen.",
};

const LANGUAGES = { en: english, de: german };

export interface Language {
  code: keyof typeof LANGUAGES;
  texts: Texts;
  time: (iso: string) => string;
  /** "A, B, or C" */
  either: (names: string[]) => string;
}

export function languageFor(preferred: readonly string[]): Language {
  for (const tag of preferred) {
    const [code = ""] = tag.toLowerCase().split("-");
    if (code === "de" || code === "en") {
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
