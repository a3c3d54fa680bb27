"""Check brokers' addresses before a connection is tried."""

from __future__ import annotations

from kafkaguard._common.arguments import read_address
from kafkaguard_adapters.spark.setting_errors import setting_error

_NAME = "bootstrap_servers"
_ALLOWED = "host:port, with a comma between several; [::1]:9092 for IPv6"


def check_servers(servers: object) -> str:
    """Return the addresses, if all are valid.

    Raises:
        ClientConfigurationError: No address is given, or one cannot be parsed; the text
            names it.
    """
    if servers is None or servers == "":
        raise setting_error(
            f"bootstrap_servers is missing: name the brokers' addresses ({_ALLOWED}); "
            "for the data source the option is kafka.bootstrap.servers",
            setting=_NAME,
        )
    if not isinstance(servers, str):
        kind = type(servers).__name__
        said = f"bootstrap_servers is text, {_ALLOWED}; not {kind}"
        raise setting_error(said, setting=_NAME)
    addresses = [each.strip() for each in servers.split(",") if each.strip()]
    for address in addresses or [servers]:
        if read_address(address) is None:
            # The part before an @ may be a password.
            shown = address.rpartition("@")[2]
            said = f"bootstrap_servers: {shown!r} cannot be parsed: {_ALLOWED}"
            raise setting_error(said, setting=_NAME)
    return servers
