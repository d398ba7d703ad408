"""Real apt installs the client from a real controller, and refuses what the release's key has not signed."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from culvert_lab.free_port import free_port
from culvert_proto.invitation_link import parse_invitation
from debian import TESTED, Debian, find_package, satisfy
from releases import ROOT, Release
from repository import CLIENTS, make_repository
from signing import Signer, agent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

NAME = "vpn.corp.example"
# The controller's repository alone, and any fault of it ends the command.
_UPDATE = (
    "apt-get update -o APT::Update::Error-Mode=any -o APT::Get::List-Cleanup=0 "
    "-o Dir::Etc::SourceList=/etc/apt/sources.list.d/culvert.sources -o Dir::Etc::SourceParts=-"
)


@dataclass(frozen=True, slots=True)
class Served:
    """`folder`: what the controller serves. `good`: the repository as the release made it."""

    folder: Path
    good: Path
    url: str
    public_url: str
    token: str
    ca: Path

    def show(self, repository: Path) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(repository, self.folder)

    def command(self) -> str:
        """The line that the page of an invitation shows."""
        verify = ssl.create_default_context(cafile=str(self.ca))
        verify.check_hostname = False
        headers = {"Authorization": f"Bearer {self.token}"}
        with httpx.Client(base_url=self.url, verify=verify, trust_env=False) as client:
            user = {"name": "alice", "email": "alice@corp.example"}
            client.post("/api/v1/users", json=user, headers=headers)
            link = client.post("/api/v1/invitations", json={"user": "alice"}, headers=headers).json()["link"]
            asked = {"token": parse_invitation(link).token}
            shown: dict[str, Any] = client.post("/api/v1/enrolments/invitation", json=asked).json()
        return str(shown["install"]["command"])

    def make_known(self) -> str:
        """The part of the line before apt reads the repository."""
        return f"cd /root; {self.command().partition(' && sudo apt update')[0]}"


@pytest.fixture(scope="module")
def signer() -> Iterator[Signer]:
    with Signer.of(None) as signer:
        yield signer


@pytest.fixture(scope="module")
def served(signer: Signer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("controller")
    make_repository(folder / "good", TESTED, signer)
    ports = [free_port(), free_port()]
    (folder / "controller.toml").write_text(
        f'state_dir = "{folder}/state"\nrest_listen = "127.0.0.1:{ports[0]}"\nagent_listen = "127.0.0.1:{ports[1]}"\n'
        f'public_rest_url = "https://{NAME}:{ports[0]}"\nmanaged_zones = ["corp.example"]\n'
        f'apt_repository = "{folder}/served"\n'
    )
    program = ROOT / ".venv/bin/culvert-controller"
    config = ["--config", str(folder / "controller.toml")]
    subprocess.run([program, "init", *config], check=True, stdout=subprocess.DEVNULL)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, "serve", *config], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while socket.socket().connect_ex(("127.0.0.1", ports[0])):
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.2)
        state = folder / "state"
        token = (state / "admin-token").read_text().strip()
        here, public = (f"https://{host}:{ports[0]}" for host in ("127.0.0.1", NAME))
        yield Served(folder / "served", folder / "good", here, public, token, state / "infrastructure-ca.pem")
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(params=TESTED, ids=lambda it: it.tag, scope="module")
def installed(request: pytest.FixtureRequest) -> Iterator[Debian]:
    """With what the client's packages need of the release, so that all faults afterwards are the repository's."""
    release: Release = request.param
    with Debian(release) as laptop:
        laptop.prepare(satisfy(find_package(it, release) for it in CLIENTS))
        laptop.prepare(
            f"echo '127.0.0.1 {NAME}' >>/etc/hosts; echo 'APT::Get::Assume-Yes 1;' >/etc/apt/apt.conf.d/yes"
        )
        yield laptop


@pytest.fixture
def laptop(installed: Debian) -> Iterator[Debian]:
    yield installed
    left = "dpkg-query --show --showformat '${Package}\n' 'culvert-*' | xargs -r dpkg --purge"
    # Files of one commit have one time: apt would take what is left for unchanged, also what it has refused.
    installed.prepare(f"{left}; rm -rf /var/lib/apt/lists/{NAME}* /var/lib/apt/lists/partial/*")


def test_the_line_of_the_page_installs_the_client(laptop: Debian, served: Served) -> None:
    served.show(served.good)
    said = laptop.prepare(f"cd /root; {served.command()}")
    assert "culvert-archive.deb: OK" in said
    said = laptop.prepare("dpkg --list culvert-client culvert-tray culvert-archive culvert-archive-keyring")
    assert said.count("\nii ") == 4, said
    assert f"origin {NAME}" not in laptop.prepare("apt-cache policy bash")
    # A second run replaces nothing that the signed package has brought.
    laptop.prepare(f"cd /root; {served.command()}")
    assert laptop.prepare("dpkg -S /usr/share/keyrings/culvert-archive-keyring.pgp").startswith(
        "culvert-archive-keyring:"
    )
    laptop.prepare("apt-get purge -y 'culvert-*'; test ! -e /etc/apt/sources.list.d/culvert.sources")
    assert laptop.prepare("find /etc/apt /usr/share/keyrings -name '*culvert*'") == ""


def _damage_package(repository: Path) -> None:
    for package in (repository / "pool").glob("culvert-client_*"):
        content = bytearray(package.read_bytes())
        content[len(content) // 2] ^= 1
        package.write_bytes(content)


def _damage_signed_text(repository: Path) -> None:
    for signed in repository.glob("dists/*/InRelease"):
        signed.write_text(signed.read_text().replace("Label: Culvert", "Label: culvert"))


def _exchange_signature(repository: Path) -> None:
    with Signer.of(None) as other:
        make_repository(repository, TESTED, other)


def _remove_signature(repository: Path) -> None:
    for signed in [*repository.glob("dists/*/InRelease"), *repository.glob("dists/*/Release.gpg")]:
        signed.unlink()


@pytest.mark.parametrize(
    ("harm", "refusal"),
    [
        (_damage_package, "Hash Sum mismatch"),
        (_damage_signed_text, "BADSIG|has been manipulated"),
        (_exchange_signature, "NO_PUBKEY|Missing key"),
        (_remove_signature, "is not signed|no longer signed"),
    ],
)
def test_apt_refuses(laptop: Debian, served: Served, tmp_path: Path, harm: Any, refusal: str) -> None:
    served.show(served.good)
    laptop.prepare(served.make_known())
    shutil.copytree(served.good, tmp_path / "harmed")
    harm(tmp_path / "harmed")
    served.show(tmp_path / "harmed")
    said = laptop.prepare(f"if {{ {_UPDATE} && apt-get install culvert-tray; }} 2>&1; then echo DONE; fi")
    assert any(it in said for it in refusal.split("|")), said
    assert "DONE" not in said
    assert laptop.prepare("dpkg --list 'culvert-*' | grep ^ii").count("\n") == 0


def test_apt_refuses_a_key_that_has_expired(laptop: Debian, served: Served, tmp_path: Path) -> None:
    home = tmp_path / "gnupg"
    home.mkdir(0o700)
    (home / "gpg.conf").write_text("faked-system-time 20250101T000000!\n")
    with agent(home):
        gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--passphrase", ""]
        subprocess.run([*gpg, "--quick-generate-key", "Expired", "ed25519", "sign", "7d"], check=True)
        listed = subprocess.run(
            [*gpg, "--list-keys", "--with-colons"], check=True, capture_output=True, text=True
        )
        fingerprint = listed.stdout.partition("\nfpr:")[2].split(":")[8]
        public = subprocess.run([*gpg, "--export"], check=True, capture_output=True).stdout
        # The release extends its key and signs, and the laptop has the key as it was.
        (home / "gpg.conf").unlink()
        subprocess.run([*gpg, "--quick-set-expire", fingerprint, "2y"], check=True)
        make_repository(tmp_path / "expired", TESTED, Signer(home, fingerprint, public, is_throwaway=True))
    served.show(tmp_path / "expired")
    laptop.prepare(served.make_known())
    said = laptop.prepare(f"if {_UPDATE} 2>&1; then echo DONE; fi")
    assert "DONE" not in said
    assert "EXPKEYSIG" in said or "expired" in said.lower(), said


def test_the_next_key_comes_before_it_signs(
    laptop: Debian, served: Served, signer: Signer, tmp_path: Path
) -> None:
    secret, public = tmp_path / "now.key", tmp_path / "next.pgp"
    export = ["gpg", "--homedir", str(signer.home), "--batch", "--export-secret-keys"]
    secret.write_bytes(subprocess.run(export, check=True, capture_output=True).stdout)
    with Signer.of(None) as following:
        public.write_bytes(following.public)
        with Signer.of(secret, [public]) as both:
            make_repository(tmp_path / "both", TESTED, both)
        make_repository(tmp_path / "next", TESTED, following)
    # Set up by a controller of the release before: its keyring has the first key alone.
    served.show(served.good)
    laptop.prepare(served.make_known())
    served.show(tmp_path / "both")
    laptop.prepare(f"{_UPDATE}; apt-get install culvert-tray culvert-archive-keyring")
    served.show(tmp_path / "next")
    laptop.prepare(
        f"rm -rf /var/lib/apt/lists/{NAME}*; {_UPDATE}; apt-get install --reinstall culvert-client"
    )


def test_an_unknown_system_is_refused_and_nothing_changes(laptop: Debian, served: Served) -> None:
    served.show(served.good)
    before = laptop.prepare("ls -lR /etc/apt /usr/share/keyrings")
    other = "sed 's/^PRETTY_NAME=.*/PRETTY_NAME=Other/; s/CODENAME=.*/CODENAME=other/' /etc/os-release >/tmp/other"
    hidden = f"{other}; mount --bind /tmp/other /etc/os-release; cd /root"
    said = laptop.prepare(f"{hidden}; {{ {served.command()}; }} 2>&1 || true")
    assert "none for Other. Nothing was changed." in said
    assert laptop.prepare("ls -lR /etc/apt /usr/share/keyrings") == before


def test_a_second_source_for_the_repository_is_refused(laptop: Debian, served: Served) -> None:
    served.show(served.good)
    mine = "/etc/apt/sources.list.d/mine.list"
    laptop.prepare(f"echo 'deb [trusted=yes] {served.public_url}/apt any main' >{mine}")
    said = laptop.prepare(f"cd /root; {{ {served.command()}; }} 2>&1 || true; rm {mine}")
    assert f"{mine} names this repository, too: remove it first. Nothing was changed." in said


def test_a_derivative_gets_the_packages_of_its_base(laptop: Debian, served: Served) -> None:
    """As Linux Mint: a codename of its own, and that of Ubuntu beside it."""
    served.show(served.good)
    derived = r"sed 's/^VERSION_CODENAME=\(.*\)/VERSION_CODENAME=wilma\nUBUNTU_CODENAME=\1/' /etc/os-release >/tmp/mint"
    laptop.prepare(f"{derived}; mount --bind /tmp/mint /etc/os-release; {served.make_known()}; {_UPDATE}")
