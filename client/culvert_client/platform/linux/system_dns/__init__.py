"""The system's name service, pointed at the stub while the daemon runs and put back afterwards."""

from culvert_client.platform.linux.system_dns.setup import SystemDns, clean_up

__all__ = ["SystemDns", "clean_up"]
