"""What users may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard.testing._errors import ClusterError
from kafkaguard.testing._topics import admin
from kafkaguard.testing._wire import ask, wait_for_all

if TYPE_CHECKING:
    from collections.abc import Sequence


def grant(
    addresses: Sequence[str], user: str, operation: str, resource: str, name: str
) -> None:
    """Allow a user an operation and wait until every broker knows.

    Raises:
        ClusterError: Kafka refused, or not every broker knew in time.
    """
    acl = _acl(user, operation, resource, name)
    what = f"{user}'s right to {operation} {resource} {name}"
    with admin(addresses) as client:
        failed = client.create_acls([acl])["failed"]
    if failed:
        raise ClusterError(f"{what} was refused: {failed[0].__name__}")
    wait_for_all(addresses, lambda address: _knows(address, acl), what)


def _acl(user: str, operation: str, resource: str, name: str) -> Any:
    from kafka.admin import (
        ACL,
        ACLOperation,
        ACLPermissionType,
        ResourcePattern,
        ResourceType,
    )

    try:
        target = ResourcePattern(ResourceType[resource.upper()], name)
        allowed = ACLOperation[operation.upper()]
    except KeyError as error:
        raise ClusterError(f"Kafka's access control has no {error}") from error
    return ACL(f"User:{user}", "*", allowed, ACLPermissionType.ALLOW, target)


def _knows(address: str, acl: Any) -> bool:
    from kafka.protocol.admin import DescribeAclsRequest, DescribeAclsResponse

    request = DescribeAclsRequest(
        resource_type_filter=acl.resource_pattern.resource_type,
        resource_name_filter=acl.resource_pattern.resource_name,
        pattern_type_filter=acl.resource_pattern.pattern_type,
        principal_filter=acl.principal,
        host_filter=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )
    return bool(ask(address, request, DescribeAclsResponse, version=2).resources)
