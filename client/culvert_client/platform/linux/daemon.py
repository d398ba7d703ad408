"""The Linux implementation for the daemon."""

from culvert_client.platform.interfaces import DaemonPlatform
from culvert_client.platform.linux import (
    callers,
    datapath,
    networks,
    ping_sockets,
    ports,
    posture,
    process,
    senders,
    sniffer,
    system_dns,
)
from culvert_client.platform.linux.paths import PATHS

PLATFORM = DaemonPlatform(
    paths=PATHS,
    datapaths=datapath,
    networks=networks,
    ping_sockets=ping_sockets,
    name_services=system_dns,
    dns_sniffers=sniffer,
    senders=senders,
    callers=callers,
    ports=ports,
    posture=posture,
    process=process,
)
