"""The controller in a P4Runtime role of its own, at a sluice that keeps it apart from others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import finsy
import grpc
import grpc.aio
import pytest
from culvert_lab.free_port import free_port
from culvert_service.gateways.program import objects_of
from culvert_service.operation.commands import issue_reader
from finsy.proto import p4r, p4r_grpc, stratum

from .conftest import authority, running, settings_in
from .gateway_process import BMV2, SLUICE, bmv2, sluice, unpack
from .wire import Wires

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.geteuid() != 0 or not SLUICE.exists(), reason="needs root for interfaces, and a built sluice"
    ),
]


async def test_another_role_cannot_write_the_controllers_tables(
    tmp_path: Path, database_url: str, wires: Wires
) -> None:
    settings = settings_in(tmp_path, database_url=database_url, p4runtime_role="culvert")
    async with running(settings) as world:
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        port = free_port()
        await world.add_gateway("gw-berlin", port)
        unpack(await world.rest("POST", "/gateways/gw-berlin/bundle"), tmp_path / "gateway")
        async with sluice(tmp_path / "gateway", wires.names, port):
            await world.online("gw-berlin")
            await world.add_wiki(["gw-berlin"])
            device = await world.enrol()
            await device.prove()
            await device.open()
            assert (await world.rest("GET", "/gateways/gw-berlin/entries"))["tunnel_entries"] == 5

            own = authority(world, "infrastructure").issue_p4runtime_client()
            credentials = finsy.GRPCCredentialsTLS(
                cacert=authority(world, "gateway").pem,
                cert=own.certificate.pem,
                private_key=own.key_pem,
                target_name_override="gw-berlin",
            )
            p4info = settings.p4_artifacts / "gateway.p4info.txtpb"
            options = finsy.SwitchOptions(
                device_id=1,
                initial_election_id=1000,
                channel_credentials=credentials,
                role_name="observer",
                role_config=stratum.P4RoleConfig(),
            )
            async with finsy.Switch("observer", f"127.0.0.1:{port}", options) as observer:
                assert observer.is_primary
                table = p4r.TableEntry(table_id=objects_of(p4info).exclusive_p4_ids[0])
                update = p4r.Update(type=p4r.Update.DELETE, entity=p4r.Entity(table_entry=table))
                with pytest.raises(finsy.P4ClientError, match="role may not write"):
                    await observer.write([update])
            # The observer has changed no table and no primary.
            await device.open()
            found = await world.rest("GET", "/gateways/gw-berlin")
            assert (found["state"], found["drift"]["repaired"]) == ("online", 0)


async def test_a_readers_certificate_reads_and_changes_nothing(
    tmp_path: Path, database_url: str, wires: Wires
) -> None:
    settings = settings_in(tmp_path, database_url=database_url)
    async with running(settings) as world:
        port, reader = free_port(), tmp_path / "reader"
        await world.add_gateway("gw-berlin", port)
        unpack(await world.rest("POST", "/gateways/gw-berlin/bundle"), tmp_path / "gateway")
        await issue_reader(settings, reader)
        assert {file.name: file.stat().st_mode & 0o777 for file in reader.iterdir()} == dict.fromkeys(
            ("ca.pem", "reader.pem", "reader.key"), 0o600
        )
        [line] = await world.rest("GET", "/audit?action=gateway.reader")
        assert line["object"] == "ca/infrastructure"
        async with sluice(tmp_path / "gateway", wires.names, port, "--reader-name", "culvert-reader"):
            await world.online("gw-berlin")
            ca, certificate, key = (
                (reader / name).read_bytes() for name in ("ca.pem", "reader.pem", "reader.key")
            )
            credentials = grpc.ssl_channel_credentials(ca, key, certificate)
            # A gateway's certificate carries the gateway's name, not its address.
            named = [("grpc.ssl_target_name_override", "gw-berlin")]
            async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, named) as channel:
                stub: Any = p4r_grpc.P4RuntimeStub(cast("Any", channel))
                everything = p4r.Entity(table_entry=p4r.TableEntry())
                answers = stub.Read(p4r.ReadRequest(device_id=1, entities=[everything]))
                entries = [entity async for answer in answers for entity in answer.entities]
                shown = await world.rest("GET", "/gateways/gw-berlin/entries")
                assert len(entries) == shown["count"] > 0
                gone = p4r.Update(type=p4r.Update.DELETE, entity=entries[0])
                epoch = p4r.Uint128(low=(await world.rest("GET", "/gateways/gw-berlin"))["epoch"])
                with pytest.raises(grpc.aio.AioRpcError, match="for reading alone"):
                    await stub.Write(p4r.WriteRequest(device_id=1, election_id=epoch, updates=[gone]))
            found = await world.rest("GET", "/gateways/gw-berlin")
            assert (found["state"], found["drift"]["repaired"]) == ("online", 0)


@pytest.mark.skipif(BMV2 is None, reason="no simple_switch_grpc is on the PATH")
async def test_bmv2_is_written_in_the_default_role(tmp_path: Path, database_url: str, wires: Wires) -> None:
    settings = settings_in(tmp_path, database_url=database_url, p4runtime_role="culvert")
    async with running(settings) as world:
        port = free_port()
        made = await world.add_gateway("gw-berlin", port, kind="bmv2")
        assert made["kind"] == "bmv2"
        unpack(await world.rest("POST", "/gateways/gw-berlin/bundle"), tmp_path / "gateway")
        async with bmv2(tmp_path / "gateway", wires.names, port):
            await world.online("gw-berlin")
