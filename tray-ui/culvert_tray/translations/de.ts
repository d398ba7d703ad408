<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="de" sourcelanguage="en">
<context>
    <name>culvert-tray</name>
    <message>
        <source>Save a report</source>
        <translation>Bericht speichern</translation>
    </message>
    <message>
        <source>Tunnel</source>
        <translation>Tunnel</translation>
    </message>
    <message>
        <source>Report</source>
        <translation>Bericht</translation>
    </message>
    <message>
        <source>Resources</source>
        <translation>Ressourcen</translation>
    </message>
    <message>
        <source>Tunnels</source>
        <translation>Tunnel</translation>
    </message>
    <message>
        <source>Activity</source>
        <translation>Verlauf</translation>
    </message>
    <message>
        <source>Diagnostics</source>
        <translation>Diagnose</translation>
    </message>
    <message>
        <source>About</source>
        <translation>Info</translation>
    </message>
    <message>
        <source>opening</source>
        <translation>wird geöffnet</translation>
    </message>
    <message>
        <source>up</source>
        <translation>offen</translation>
    </message>
    <message>
        <source>up, changing keys</source>
        <translation>offen, wechselt Schlüssel</translation>
    </message>
    <message>
        <source>closing</source>
        <translation>wird geschlossen</translation>
    </message>
    <message numerus="yes">
        <source>{size} in %n packets</source>
        <translation>
            <numerusform>{size} in %n Paket</numerusform>
            <numerusform>{size} in %n Paketen</numerusform>
        </translation>
    </message>
    <message>
        <source>Resource</source>
        <translation>Ressource</translation>
    </message>
    <message>
        <source>State</source>
        <translation>Zustand</translation>
    </message>
    <message>
        <source>Gateway</source>
        <translation>Gateway</translation>
    </message>
    <message>
        <source>Your address</source>
        <translation>Eigene Adresse</translation>
    </message>
    <message>
        <source>Reaches</source>
        <translation>Erreicht</translation>
    </message>
    <message>
        <source>Open for</source>
        <translation>Offen seit</translation>
    </message>
    <message>
        <source>Received</source>
        <translation>Empfangen</translation>
    </message>
    <message>
        <source>Sent</source>
        <translation>Gesendet</translation>
    </message>
    <message>
        <source>Dropped</source>
        <translation>Verworfen</translation>
    </message>
    <message>
        <source>Key generation</source>
        <translation>Schlüsselgeneration</translation>
    </message>
    <message>
        <source>unknown</source>
        <translation>unbekannt</translation>
    </message>
    <message>
        <source>none</source>
        <translation>nichts</translation>
    </message>
    <message>
        <source>QR code for your authenticator</source>
        <translation>QR-Code für die Authenticator-App</translation>
    </message>
    <message>
        <source>Can't scan it? Type this key: {key}</source>
        <translation>Scannen geht nicht? Diesen Schlüssel eingeben: {key}</translation>
    </message>
    <message>
        <source>Enrolled as {user}.</source>
        <translation>Registriert als {user}.</translation>
    </message>
    <message>
        <source>Code</source>
        <translation>Code</translation>
    </message>
    <message>
        <source>The &amp;six digits that your authenticator shows now</source>
        <translation>Die &amp;sechs Ziffern, die die Authenticator-App jetzt zeigt</translation>
    </message>
    <message>
        <source>Access to {name}</source>
        <translation>Zugriff auf {name}</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>Abbrechen</translation>
    </message>
    <message>
        <source>Ask {owner}</source>
        <translation>{owner} fragen</translation>
    </message>
    <message>
        <source>&amp;Six digits from your authenticator, or a recovery code</source>
        <translation>&amp;Sechs Ziffern aus der Authenticator-App oder ein Wiederherstellungscode</translation>
    </message>
    <message>
        <source>Submit</source>
        <translation>Absenden</translation>
    </message>
    <message>
        <source>Enter a code</source>
        <translation>Code eingeben</translation>
    </message>
    <message>
        <source>Enrol this computer</source>
        <translation>Diesen Computer registrieren</translation>
    </message>
    <message>
        <source>Invitation link</source>
        <translation>Einladungslink</translation>
    </message>
    <message>
        <source>Name of this computer</source>
        <translation>Name dieses Computers</translation>
    </message>
    <message>
        <source>Enrol</source>
        <translation>Registrieren</translation>
    </message>
    <message>
        <source>Invitation &amp;link</source>
        <translation>Einladungs&amp;link</translation>
    </message>
    <message>
        <source>&amp;Name of this computer</source>
        <translation>&amp;Name dieses Computers</translation>
    </message>
    <message>
        <source>closed</source>
        <translation>geschlossen</translation>
    </message>
    <message>
        <source>Keep these recovery codes in case you lose your authenticator. Each works once, as a code:</source>
        <translation>Diese Wiederherstellungscodes sicher aufbewahren, falls die Authenticator-App einmal fehlt. Jeder gilt einmal anstelle eines Codes:</translation>
    </message>
    <message>
        <source>Copy</source>
        <translation>Kopieren</translation>
    </message>
    <message>
        <source>The program culvert is not installed.</source>
        <translation>Das Programm culvert ist nicht installiert.</translation>
    </message>
    <message numerus="yes">
        <source>%n tunnels up</source>
        <translation>
            <numerusform>%n Tunnel offen</numerusform>
            <numerusform>%n Tunnel offen</numerusform>
        </translation>
    </message>
    <message>
        <source>opening…</source>
        <translation>wird geöffnet…</translation>
    </message>
    <message>
        <source>closing…</source>
        <translation>wird geschlossen…</translation>
    </message>
    <message>
        <source>All tunnels…</source>
        <translation>Alle Tunnel…</translation>
    </message>
    <message>
        <source>All resources…</source>
        <translation>Alle Ressourcen…</translation>
    </message>
    <message>
        <source>Automatic</source>
        <translation>Automatisch</translation>
    </message>
    <message>
        <source>— offline</source>
        <translation>— nicht erreichbar</translation>
    </message>
    <message>
        <source>Run diagnostics</source>
        <translation>Diagnose starten</translation>
    </message>
    <message>
        <source>Save a report…</source>
        <translation>Bericht speichern…</translation>
    </message>
    <message>
        <source>Documentation</source>
        <translation>Dokumentation</translation>
    </message>
    <message>
        <source>Open Culvert…</source>
        <translation>Culvert öffnen…</translation>
    </message>
    <message>
        <source>Help</source>
        <translation>Hilfe</translation>
    </message>
    <message>
        <source>This computer is not enrolled</source>
        <translation>Dieser Computer ist nicht registriert</translation>
    </message>
    <message>
        <source>Blocked — no tunnel can be opened</source>
        <translation>Gesperrt — kein Tunnel lässt sich öffnen</translation>
    </message>
    <message>
        <source>{gateway} does not answer</source>
        <translation>{gateway} antwortet nicht</translation>
    </message>
    <message>
        <source>The gateways do not answer</source>
        <translation>Die Gateways antworten nicht</translation>
    </message>
    <message>
        <source>Only small packets reach {gateway}</source>
        <translation>Nur kleine Pakete erreichen {gateway}</translation>
    </message>
    <message>
        <source>Only small packets reach the gateways</source>
        <translation>Nur kleine Pakete erreichen die Gateways</translation>
    </message>
    <message>
        <source>does not answer</source>
        <translation>antwortet nicht</translation>
    </message>
    <message>
        <source>small packets only</source>
        <translation>nur kleine Pakete</translation>
    </message>
    <message>
        <source>the gateway does not answer</source>
        <translation>das Gateway antwortet nicht</translation>
    </message>
    <message>
        <source>only small packets pass</source>
        <translation>nur kleine Pakete kommen durch</translation>
    </message>
    <message>
        <source>Last packet</source>
        <translation>Letztes Paket</translation>
    </message>
    <message>
        <source>none yet</source>
        <translation>noch keins</translation>
    </message>
    <message>
        <source>{duration} ago</source>
        <translation>vor {duration}</translation>
    </message>
    <message>
        <source>Offline — not connected to the controller</source>
        <translation>Offline — nicht mit dem Controller verbunden</translation>
    </message>
    <message>
        <source>Offline — controller cannot be reached</source>
        <translation>Offline — Controller nicht erreichbar</translation>
    </message>
    <message>
        <source>Starting…</source>
        <translation>Startet…</translation>
    </message>
    <message>
        <source>Connected</source>
        <translation>Verbunden</translation>
    </message>
    <message>
        <source>A code is needed</source>
        <translation>Ein Code wird benötigt</translation>
    </message>
    <message>
        <source>Open {name}</source>
        <translation>{name} öffnen</translation>
    </message>
    <message>
        <source>Gateway · {name}</source>
        <translation>Gateway · {name}</translation>
    </message>
    <message>
        <source>Pause Culvert</source>
        <translation>Culvert pausieren</translation>
    </message>
    <message>
        <source>Quit the tray (tunnels stay up)</source>
        <translation>Symbol beenden (Tunnel bleiben offen)</translation>
    </message>
    <message>
        <source>Connecting to {name}…</source>
        <translation>Verbindung zu {name} wird aufgebaut…</translation>
    </message>
    <message>
        <source>Connecting…</source>
        <translation>Verbindung wird aufgebaut…</translation>
    </message>
    <message>
        <source>Paused until {time}</source>
        <translation>Pausiert bis {time}</translation>
    </message>
    <message>
        <source>Paused</source>
        <translation>Pausiert</translation>
    </message>
    <message>
        <source>Ready — no tunnel up</source>
        <translation>Bereit — kein Tunnel offen</translation>
    </message>
    <message>
        <source>no valid code</source>
        <translation>kein gültiger Code</translation>
    </message>
    <message>
        <source>code valid for {duration}</source>
        <translation>Code noch {duration} gültig</translation>
    </message>
    <message>
        <source>Open in the browser</source>
        <translation>Im Browser öffnen</translation>
    </message>
    <message>
        <source>Details…</source>
        <translation>Details…</translation>
    </message>
    <message>
        <source>Close</source>
        <translation>Schließen</translation>
    </message>
    <message>
        <source>Recent and favourites</source>
        <translation>Zuletzt benutzt und Favoriten</translation>
    </message>
    <message>
        <source>Resume now</source>
        <translation>Jetzt fortsetzen</translation>
    </message>
    <message>
        <source>Copy for your administrator</source>
        <translation>Für die Administration kopieren</translation>
    </message>
    <message>
        <source>Decide…</source>
        <translation>Entscheiden…</translation>
    </message>
    <message>
        <source>This program</source>
        <translation>Dieses Programm</translation>
    </message>
    <message>
        <source>Start &amp;with the session</source>
        <translation>Mit der &amp;Sitzung starten</translation>
    </message>
    <message>
        <source>&amp;Language</source>
        <translation>Sp&amp;rache</translation>
    </message>
    <message>
        <source>As the desktop</source>
        <translation>Wie die Arbeitsumgebung</translation>
    </message>
    <message>
        <source>Preferred gateway</source>
        <translation>Bevorzugtes Gateway</translation>
    </message>
    <message>
        <source>Log and report</source>
        <translation>Protokoll und Bericht</translation>
    </message>
    <message>
        <source>The log is in the system's journal, as culvertd. A report tells your administrator how Culvert is doing here.</source>
        <translation>Das Protokoll steht im Journal des Systems, unter culvertd. Ein Bericht sagt der Administration, wie es hier um Culvert steht.</translation>
    </message>
    <message>
        <source>Agreed: {networks}</source>
        <translation>Zugestimmt: {networks}</translation>
    </message>
    <message>
        <source>Declined: {networks}</source>
        <translation>Abgelehnt: {networks}</translation>
    </message>
    <message>
        <source>Change…</source>
        <translation>Ändern…</translation>
    </message>
    <message>
        <source>You have agreed: Culvert carries traffic to them. If you decline now, their tunnels close.</source>
        <translation>Zugestimmt: Culvert befördert den Verkehr dorthin. Nach einer Ablehnung schließen ihre Tunnel.</translation>
    </message>
    <message>
        <source>The setting was not saved</source>
        <translation>Die Einstellung wurde nicht gespeichert</translation>
    </message>
    <message>
        <source>Let Culvert choose</source>
        <translation>Culvert wählen lassen</translation>
    </message>
    <message>
        <source>{path} is written. Look into it before you send it.</source>
        <translation>{path} ist geschrieben. Vor dem Versenden ansehen.</translation>
    </message>
    <message>
        <source>Enrol this computer…</source>
        <translation>Diesen Computer registrieren…</translation>
    </message>
    <message>
        <source>Add an organisation…</source>
        <translation>Organisation hinzufügen…</translation>
    </message>
    <message>
        <source>Signed in as {user} · {code}</source>
        <translation>Angemeldet als {user} · {code}</translation>
    </message>
    <message>
        <source>Copy address {address}</source>
        <translation>Adresse {address} kopieren</translation>
    </message>
    <message>
        <source>Another user has enrolled this computer</source>
        <translation>Dieser Computer wurde mit einem anderen Konto registriert</translation>
    </message>
    <message>
        <source>Gateways</source>
        <translation>Gateways</translation>
    </message>
    <message>
        <source>Organisation</source>
        <translation>Organisation</translation>
    </message>
    <message>
        <source>Enter code now…</source>
        <translation>Code jetzt eingeben…</translation>
    </message>
    <message>
        <source>automatic</source>
        <translation>automatisch</translation>
    </message>
    <message>
        <source>Type the six digits that your authenticator shows.</source>
        <translation>Die sechs Ziffern aus der Authenticator-App eingeben.</translation>
    </message>
    <message>
        <source>Your code ends at {time}</source>
        <translation>Der Code gilt bis {time}</translation>
    </message>
    <message>
        <source>{name} is open</source>
        <translation>{name} ist geöffnet</translation>
    </message>
    <message>
        <source>Through {gateway}, encrypted from this computer to the gateway.</source>
        <translation>Über {gateway}, verschlüsselt von diesem Computer bis zum Gateway.</translation>
    </message>
    <message>
        <source>{name} goes through {gateway} now</source>
        <translation>{name} läuft jetzt über {gateway}</translation>
    </message>
    <message>
        <source>{gateway} went out of service.</source>
        <translation>{gateway} ist ausgefallen oder außer Betrieb.</translation>
    </message>
    <message>
        <source>Ask your administrator for a new authenticator.</source>
        <translation>Die Administration um einen neuen Authenticator bitten.</translation>
    </message>
    <message>
        <source>That was the last recovery code</source>
        <translation>Das war der letzte Wiederherstellungscode</translation>
    </message>
    <message>
        <source>Each works once, as a code. A new authenticator from your administrator brings new ones.</source>
        <translation>Jeder gilt einmal anstelle eines Codes. Mit einem neuen Authenticator von der Administration gibt es neue.</translation>
    </message>
    <message numerus="yes">
        <source>%n recovery codes are left</source>
        <translation>
            <numerusform>Noch %n Wiederherstellungscode</numerusform>
            <numerusform>Noch %n Wiederherstellungscodes</numerusform>
        </translation>
    </message>
    <message>
        <source>Open</source>
        <translation>Öffnen</translation>
    </message>
    <message>
        <source>Enter code</source>
        <translation>Code eingeben</translation>
    </message>
    <message>
        <source>Six digits</source>
        <translation>Sechs Ziffern</translation>
    </message>
    <message>
        <source>Enter code…</source>
        <translation>Code eingeben…</translation>
    </message>
    <message>
        <source>A &amp;name is opened for the first time</source>
        <translation>ein &amp;Name zum ersten Mal geöffnet wird</translation>
    </message>
    <message>
        <source>A &amp;code is needed</source>
        <translation>ein &amp;Code benötigt wird</translation>
    </message>
    <message>
        <source>A code &amp;ends soon</source>
        <translation>ein Code &amp;bald abläuft</translation>
    </message>
    <message>
        <source>&amp;Something is denied</source>
        <translation>etwas &amp;abgelehnt wird</translation>
    </message>
    <message>
        <source>A &amp;tunnel moves to another gateway</source>
        <translation>ein &amp;Tunnel auf ein anderes Gateway umzieht</translation>
    </message>
    <message>
        <source>Search resources</source>
        <translation>Ressourcen suchen</translation>
    </message>
    <message>
        <source>Notify me when</source>
        <translation>Benachrichtigen, wenn</translation>
    </message>
    <message>
        <source>Each step from this computer to the gateway is checked, without changing anything.</source>
        <translation>Jeder Schritt von diesem Computer bis zum Gateway wird geprüft, ohne etwas zu ändern.</translation>
    </message>
    <message>
        <source>&amp;Run diagnostics</source>
        <translation>Diagnose &amp;starten</translation>
    </message>
    <message>
        <source>Save a &amp;report…</source>
        <translation>Ber&amp;icht speichern…</translation>
    </message>
    <message>
        <source>&amp;Save a report…</source>
        <translation>&amp;Bericht speichern…</translation>
    </message>
    <message>
        <source>A zip for your administrator. No secret is in it.</source>
        <translation>Eine Zip-Datei für die Administration. Sie enthält kein Geheimnis.</translation>
    </message>
    <message>
        <source>Checking…</source>
        <translation>Wird geprüft…</translation>
    </message>
    <message>
        <source>&amp;Run again</source>
        <translation>Erneut &amp;starten</translation>
    </message>
    <message numerus="yes">
        <source>%n of {all} checks failed.</source>
        <translation>
            <numerusform>%n von {all} Prüfungen ist fehlgeschlagen.</numerusform>
            <numerusform>%n von {all} Prüfungen sind fehlgeschlagen.</numerusform>
        </translation>
    </message>
    <message>
        <source>the kernel's IPsec</source>
        <translation>das IPsec des Kernels</translation>
    </message>
    <message>
        <source>Culvert's own IPsec</source>
        <translation>das IPsec von Culvert</translation>
    </message>
    <message>
        <source>Culvert: a name opens, and a tunnel carries it.</source>
        <translation>Culvert: Ein Name wird geöffnet, ein Tunnel trägt ihn.</translation>
    </message>
    <message>
        <source>Tray {tray}, daemon {daemon}</source>
        <translation>Symbol {tray}, Dienst {daemon}</translation>
    </message>
    <message>
        <source>Controller {name}</source>
        <translation>Controller {name}</translation>
    </message>
    <message>
        <source>This computer is {device}, enrolled by {user}</source>
        <translation>Dieser Computer ist {device}, registriert von {user}</translation>
    </message>
    <message>
        <source>Packets go through {way}</source>
        <translation>Pakete gehen durch {way}</translation>
    </message>
    <message>
        <source>All checks passed.</source>
        <translation>Alle Prüfungen sind bestanden.</translation>
    </message>
    <message>
        <source>15 min</source>
        <translation>15 min</translation>
    </message>
    <message>
        <source>1 h</source>
        <translation>1 h</translation>
    </message>
    <message>
        <source>Until tomorrow</source>
        <translation>Bis morgen</translation>
    </message>
    <message>
        <source>Asking the Culvert daemon…</source>
        <translation>Der Culvert-Dienst wird gefragt…</translation>
    </message>
    <message>
        <source>Culvert's documentation</source>
        <translation>Dokumentation von Culvert</translation>
    </message>
    <message>
        <source>Public networks wait for your answer…</source>
        <translation>Öffentliche Netze warten auf eine Antwort…</translation>
    </message>
    <message>
        <source>Public networks wait for your answer</source>
        <translation>Öffentliche Netze warten auf eine Antwort</translation>
    </message>
    <message>
        <source>Public networks</source>
        <translation>Öffentliche Netze</translation>
    </message>
    <message>
        <source>The organisation asks to carry your traffic to these public networks. It would see where that traffic goes, and could read what is not encrypted.</source>
        <translation>Die Organisation möchte den Verkehr zu diesen öffentlichen Netzen übernehmen. Sie sähe dann, wohin er geht, und könnte lesen, was nicht verschlüsselt ist.</translation>
    </message>
    <message>
        <source>Until you agree, Culvert does not carry traffic to them.</source>
        <translation>Ohne Zustimmung übernimmt Culvert den Verkehr zu ihnen nicht.</translation>
    </message>
    <message>
        <source>&amp;Agree</source>
        <translation>&amp;Zustimmen</translation>
    </message>
    <message>
        <source>&amp;Decline</source>
        <translation>&amp;Ablehnen</translation>
    </message>
    <message>
        <source>Culvert opens tunnels for names under {names}.</source>
        <translation>Culvert öffnet Tunnel für Namen unter {names}.</translation>
    </message>
    <message>
        <source>Addresses in {networks} are reached through tunnels alone.</source>
        <translation>Adressen in {networks} sind nur durch Tunnel erreichbar.</translation>
    </message>
    <message>
        <source>Only the user who enrolled this computer sees its resources.</source>
        <translation>Die Ressourcen sieht nur das Konto, mit dem dieser Computer registriert wurde.</translation>
    </message>
    <message>
      <source> and {count} more</source>
      <translation> und {count} weitere</translation>
    </message>
    <message>
      <source>A tunnel opens by itself when you use a name of your organisation.</source>
      <translation>Ein Tunnel öffnet sich von selbst, sobald ein Name der Organisation benutzt wird.</translation>
    </message>
    <message>
      <source>A tunnel opens by itself when you use a name of your organisation. Try it:</source>
      <translation>Ein Tunnel öffnet sich von selbst, sobald ein Name der Organisation benutzt wird. Zum Ausprobieren:</translation>
    </message>
    <message>
      <source>A tunnel opens by itself when you use a resource's name.</source>
      <translation>Ein Tunnel öffnet sich von selbst, sobald der Name einer Ressource benutzt wird.</translation>
    </message>
    <message>
      <source>Access was denied</source>
      <translation>Der Zugriff wurde abgelehnt</translation>
    </message>
    <message>
      <source>Add to favourites</source>
      <translation>Zu den Favoriten</translation>
    </message>
    <message>
      <source>Ask your administrator for access. What you are given appears here by itself.</source>
      <translation>Die Administration kann Zugriff geben. Freigegebene Ressourcen erscheinen hier von selbst.</translation>
    </message>
    <message>
      <source>Authenticator</source>
      <translation>Authenticator-App</translation>
    </message>
    <message>
      <source>Culvert could not be started</source>
      <translation>Culvert konnte nicht gestartet werden</translation>
    </message>
    <message>
      <source>Culvert is not running</source>
      <translation>Culvert läuft nicht</translation>
    </message>
    <message>
      <source>Enrol only if you expect this invitation.</source>
      <translation>Nur registrieren, wenn diese Einladung erwartet wurde.</translation>
    </message>
    <message>
      <source>Continue</source>
      <translation>Weiter</translation>
    </message>
    <message>
      <source>Continue only if you expect this invitation. It is not used yet.</source>
      <translation>Nur fortfahren, wenn diese Einladung erwartet wurde. Sie ist noch nicht verbraucht.</translation>
    </message>
    <message>
      <source>For {person}, from {host}</source>
      <translation>Für {person}, von {host}</translation>
    </message>
    <message>
      <source>Enrol only if this is you. The invitation works once.</source>
      <translation>Nur registrieren, wenn das der eigene Name ist. Die Einladung gilt einmal.</translation>
    </message>
    <message>
      <source>This computer is enrolled there for {user} already: that ends, and its tunnels close.</source>
      <translation>Dieser Computer ist dort schon für {user} registriert: Das endet, und die Tunnel werden geschlossen.</translation>
    </message>
    <message>
      <source>From {host}</source>
      <translation>Von {host}</translation>
    </message>
    <message>
      <source>Invitation</source>
      <translation>Einladung</translation>
    </message>
    <message>
      <source>Names that you open, denials and pauses are listed here until Culvert is restarted.</source>
      <translation>Geöffnete Namen, Ablehnungen und Pausen stehen hier, bis Culvert neu startet.</translation>
    </message>
    <message>
      <source>No tunnel is open</source>
      <translation>Kein Tunnel ist offen</translation>
    </message>
    <message>
      <source>No tunnel opens until it runs. What tunnels protect stays blocked.</source>
      <translation>Solange es nicht läuft, öffnet sich kein Tunnel. Geschützte Adressen bleiben gesperrt.</translation>
    </message>
    <message>
      <source>Nothing has happened yet</source>
      <translation>Noch ist nichts geschehen</translation>
    </message>
    <message>
      <source>Ready</source>
      <translation>Bereit</translation>
    </message>
    <message>
      <source>Recovery codes of Culvert</source>
      <translation>Wiederherstellungscodes für Culvert</translation>
    </message>
    <message>
      <source>Remove from favourites</source>
      <translation>Aus den Favoriten entfernen</translation>
    </message>
    <message>
      <source>Save the recovery codes</source>
      <translation>Wiederherstellungscodes speichern</translation>
    </message>
    <message>
      <source>Saved. Keep the file where only you read it.</source>
      <translation>Gespeichert. Die Datei so verwahren, dass niemand sonst sie liest.</translation>
    </message>
    <message>
      <source>&amp;Print…</source>
      <translation>&amp;Drucken…</translation>
    </message>
    <message>
      <source>Print the recovery codes</source>
      <translation>Wiederherstellungscodes drucken</translation>
    </message>
    <message>
      <source>The codes were not printed. Save or copy them instead.</source>
      <translation>Die Codes sind nicht gedruckt. Sie lassen sich stattdessen speichern oder kopieren.</translation>
    </message>
    <message>
      <source>Save…</source>
      <translation>Speichern…</translation>
    </message>
    <message>
      <source>Scan this with your authenticator app.</source>
      <translation>Mit der Authenticator-App scannen.</translation>
    </message>
    <message>
      <source>Settings</source>
      <translation>Einstellungen</translation>
    </message>
    <message>
      <source>Start Culvert</source>
      <translation>Culvert starten</translation>
    </message>
    <message>
      <source>The answer to something that you click is always shown.</source>
      <translation>Die Antwort auf einen Klick wird immer gezeigt.</translation>
    </message>
    <message>
        <source>Your administrator can start it.</source>
        <translation>Die Administration kann Culvert starten.</translation>
    </message>
    <message>
      <source>This computer is enrolled</source>
      <translation>Dieser Computer ist registriert</translation>
    </message>
    <message>
      <source>Through {gateways} since {time}</source>
      <translation>Über {gateways} seit {time}</translation>
    </message>
    <message>
      <source>You may open nothing yet</source>
      <translation>Noch ist keine Ressource freigegeben</translation>
    </message>
    <message>
      <source>You may open nothing yet. Ask your administrator for access.</source>
      <translation>Noch ist keine Ressource freigegeben. Die Administration kann Zugriff geben.</translation>
    </message>
    <message>
      <source>Your administrator sends you an invitation. Its link, and an authenticator app, are all you need.</source>
      <translation>Die Administration schickt eine Einladung. Deren Link und eine Authenticator-App genügen.</translation>
    </message>
    <message>
      <source>culvert-recovery-codes.txt</source>
      <translation>culvert-wiederherstellungscodes.txt</translation>
    </message>
    <message>
      <source>favourite</source>
      <translation>Favorit</translation>
    </message>
    <message>
      <source>last packet {ago}</source>
      <translation>letztes Paket {ago}</translation>
    </message>
    <message>
      <source>open for {duration}</source>
      <translation>offen seit {duration}</translation>
    </message>
    <message>
      <source>through {gateway}</source>
      <translation>über {gateway}</translation>
    </message>
    <message>
      <source>{name} was denied</source>
      <translation>{name} wurde abgelehnt</translation>
    </message>
    <message>
      <source>{path} cannot be written: {why}</source>
      <translation>{path} lässt sich nicht schreiben: {why}</translation>
    </message>
    <message>
      <source>{received} received, {sent} sent</source>
      <translation>{received} empfangen, {sent} gesendet</translation>
    </message>
    <message>
        <source>More…</source>
        <translation>Mehr…</translation>
    </message>
    <message>
      <source>{name} opened at {time} in {total}</source>
      <translation>{name}, geöffnet um {time} in {total}</translation>
    </message>
    <message>
      <source>{name} at {time}</source>
      <translation>{name} um {time}</translation>
    </message>
    <message>
      <source>&amp;Measure now</source>
      <translation>Jetzt &amp;messen</translation>
    </message>
    <message>
      <source>Measuring…</source>
      <translation>Es wird gemessen…</translation>
    </message>
    <message>
      <source>Connects to the server, and asks for its start page once.</source>
      <translation>Verbindet sich mit dem Server und ruft einmal seine Startseite ab.</translation>
    </message>
    <message>
      <source>{name} did not open at {time}</source>
      <translation>{name} ging um {time} nicht auf</translation>
    </message>
    <message>
      <source>Open tunnels close then. Type the six digits that your authenticator shows.</source>
      <translation>Offene Tunnel werden dann geschlossen. Die sechs Ziffern aus der Authenticator-App eingeben.</translation>
    </message>
    <message>
      <source>{name} closes at {time} without a new code</source>
      <translation>{name} wird um {time} ohne neuen Code geschlossen</translation>
    </message>
    <message>
      <source>code not known while offline</source>
      <translation>Code offline nicht bekannt</translation>
    </message>
    <message>
        <source>every name below {suffix}</source>
        <translation>jeder Name unter {suffix}</translation>
    </message>
    <message>
        <source>Quit (tunnels stay up)</source>
        <translation>Beenden (Tunnel bleiben offen)</translation>
    </message>
    <message>
        <source>Culvert keeps running</source>
        <translation>Culvert läuft weiter</translation>
    </message>
    <message>
        <source>Notifications continue. Start Culvert again to see its window. To quit, press Ctrl+Q in the window, or use its page “About”.</source>
        <translation>Benachrichtigungen kommen weiterhin. Ein neuer Start von Culvert zeigt das Fenster wieder. Zum Beenden: Strg+Q im Fenster oder die Seite „Info“.</translation>
    </message>
    <message>
        <source>{name} has no web page</source>
        <translation>{name} hat keine Webseite</translation>
    </message>
    <message>
        <source>Its tunnel is open, but neither port 80 nor port 443 is permitted. A browser finds no page there.</source>
        <translation>Der Tunnel ist offen, aber weder Port 80 noch Port 443 ist erlaubt. Ein Browser findet dort keine Seite.</translation>
    </message>
    <message>
        <source>Nothing here contains “{text}”</source>
        <translation>Nichts hier enthält „{text}“</translation>
    </message>
    <message>
        <source>An entry must contain each word that you type.</source>
        <translation>Ein Eintrag muss jedes eingegebene Wort enthalten.</translation>
    </message>
    <message>
        <source>Search tunnels</source>
        <translation>Tunnel suchen</translation>
    </message>
    <message>
        <source>Search the activity</source>
        <translation>Verlauf durchsuchen</translation>
    </message>
    <message>
        <source>All gateways…</source>
        <translation>Alle Gateways…</translation>
    </message>
    <message>
        <source>Search gateways</source>
        <translation>Gateways suchen</translation>
    </message>
    <message>
        <source>Culvert chooses a gateway for each tunnel.</source>
        <translation>Culvert wählt für jeden Tunnel ein Gateway.</translation>
    </message>
    <message>
        <source>chosen</source>
        <translation>ausgewählt</translation>
    </message>
    <message>
        <source>Choose</source>
        <translation>Auswählen</translation>
    </message>
    <message>
        <source>offline</source>
        <translation>offline</translation>
    </message>
    <message>
        <source>More was denied</source>
        <translation>Weiteres wurde abgelehnt</translation>
    </message>
    <message>
        <source>The page “Activity” of the window lists them, with their reasons.</source>
        <translation>Die Seite „Verlauf“ des Fensters führt es auf, mit den Gründen.</translation>
    </message>
</context>
</TS>
