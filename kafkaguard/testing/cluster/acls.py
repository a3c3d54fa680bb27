"""ACLs of users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkaguard.testing.cluster.errors import ClusterError
from kafkaguard.testing.cluster.requests import ask, change, wait_for_all

if TYPE_CHECKING:
    from collections.abc import Sequence

_LITERAL = 3  # the resource_pattern_type that matches a name literally
_ANY_HOST = "*"


@dataclass(frozen=True, slots=True)
class Grant:
    """The permission for one user to do one operation on one resource.

    Attributes:
        user: The user's name.
        operation: Kafka's name of the operation.
        resource: Kafka's name of the kind of resource.
        name: The resource's name.
    """

    user: str
    operation: str
    resource: str
    name: str

    def __str__(self) -> str:
        """Describe the grant in one line."""
        return f"{self.user}'s right to {self.operation} {self.resource} {self.name}"

    def creation(self) -> Any:
        """Make the request that creates the grant."""
        from kafka.protocol.admin import CreateAclsRequest

        operation, permission, resource_type = self._codes()
        acl = CreateAclsRequest.AclCreation(
            resource_type=resource_type,
            resource_name=self.name,
            resource_pattern_type=_LITERAL,
            principal=f"User:{self.user}",
            host=_ANY_HOST,
            operation=operation,
            permission_type=permission,
        )
        return CreateAclsRequest(creations=[acl])

    def lookup(self) -> Any:
        """Make the request that finds the grant."""
        from kafka.protocol.admin import DescribeAclsRequest

        operation, permission, resource_type = self._codes()
        return DescribeAclsRequest(
            resource_type_filter=resource_type,
            resource_name_filter=self.name,
            pattern_type_filter=_LITERAL,
            principal_filter=f"User:{self.user}",
            host_filter=_ANY_HOST,
            operation=operation,
            permission_type=permission,
        )

    def _codes(self) -> tuple[int, int, int]:
        from kafka.admin import ACLOperation, ACLPermissionType, ResourceType

        try:
            operation = ACLOperation[self.operation.upper()]
            resource_type = ResourceType[self.resource.upper()]
        except KeyError as error:
            raise ClusterError(f"Kafka's access control knows no {error}") from error
        return operation, ACLPermissionType.ALLOW, resource_type


def grant(addresses: Sequence[str], wanted: Grant) -> None:
    """Allow a user an operation, and wait until all brokers know it.

    Raises:
        kafka.errors.BrokerResponseError: The controller refused.
        ClusterError: There is no such operation or resource, or not all brokers knew
            the grant in time.
    """
    from kafka.protocol.admin import CreateAclsResponse, DescribeAclsResponse

    def knows(address: str) -> bool:
        found = ask(address, wanted.lookup(), DescribeAclsResponse, version=3)
        return bool(found.resources)

    change(addresses, wanted.creation(), CreateAclsResponse, 3, "results")
    wait_for_all(addresses, knows, str(wanted))
