"""Every way in, for each client: TLS, mTLS, SASL; and no credential in any text."""

from __future__ import annotations

import logging
import ssl
from typing import NamedTuple

import pytest
import trustme
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from kafkaguard import errors, guard
from kafkaguard._cluster.reports import make
from kafkaguard.testing import KafkaCluster
from kafkaguard_adapters.aiokafka.settings import read_settings as read_aiokafka
from kafkaguard_adapters.asking.cluster_calls import ClusterCalls
from kafkaguard_adapters.asking.cluster_view import ClusterView
from kafkaguard_adapters.confluent.settings import read_settings as read_confluent
from kafkaguard_adapters.kafka_python.settings import read_settings as read_kafka_python
from tests.asking.cluster_clients import CLIENTS, admin_of, commit

pytestmark = pytest.mark.java


SECRET = "s3cret-of-alice"


class Way(NamedTuple):
    """A way into the cluster."""

    listener: str
    user: str | None = None
    mechanism: str | None = None


WAYS = (
    Way("TLS"),
    Way("SASL_PLAIN", "alice"),
    Way("SASL_SCRAM", "alice", "SCRAM-SHA-256"),
    Way("SASL_SCRAM", "alice", "SCRAM-SHA-512"),
    Way("SASL_TLS", "alice", "PLAIN"),
    Way("OAUTHBEARER", "alice"),
)


@pytest.fixture(scope="module")
def authority():
    """Make an authority for the certificates of clients."""
    return trustme.CA()


@pytest.fixture(scope="module")
def secured(authority, tmp_path_factory):
    """One broker with every kind of listener; TLS asks for the client's certificate."""
    trusted = tmp_path_factory.mktemp("tls") / "clients.pem"
    authority.cert_pem.write_to_path(trusted)
    prefix = "listener.name.tls."
    settings = {
        f"{prefix}ssl.client.auth": "requested",
        f"{prefix}ssl.truststore.type": "PEM",
        f"{prefix}ssl.truststore.location": trusted,
        f"{prefix}ssl.principal.mapping.rules": "RULE:^.*$/carol/",
    }
    with KafkaCluster(
        users={"alice": SECRET, "carol": SECRET},
        super_users=["alice"],
        tls=True,
        oauth=True,
        settings=settings,
    ) as cluster:
        commit(cluster.bootstrap_servers, "g", {(cluster.create_topic("t"), 0): 0})
        for operation, resource, name in (
            ("DESCRIBE", "CLUSTER", "kafka-cluster"),
            ("READ", "TOPIC", "t"),
            ("DESCRIBE_CONFIGS", "TOPIC", "t"),
            ("DESCRIBE", "GROUP", "g"),
        ):
            cluster.grant("carol", operation, resource, name)
        yield cluster


def every_call(admin):
    """Make every call that needs a connection of our own."""
    assert admin.log_dirs().complete
    assert admin.lag("g", columns=["time", "members", "facts"]).groups["g"].total == 0
    assert admin.beginning_offsets([("t", 0)]).offsets == {("t", 0): 0}
    assert admin.end_offsets([("t", 0)]).offsets == {("t", 0): 0}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(filter(None, way)))
def test_every_call_on_every_listener(secured, client, way, caplog):
    """It comes in, and no text that is logged has the password."""
    config = secured.client_config(
        way.listener, client=client, user=way.user, mechanism=way.mechanism
    )
    caplog.set_level(logging.DEBUG, logger="kafkaguard")
    caplog.set_level(logging.DEBUG, logger="asyncio")
    with admin_of(client, config) as admin:
        every_call(admin)
    assert SECRET not in caplog.text


@pytest.mark.parametrize("client", CLIENTS)
def test_client_certificates(secured, client, authority, tmp_path):
    """With mutual TLS the certificate goes along, whatever the client calls it."""
    certificate = authority.issue_cert("client@example.org")
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate.cert_chain_pems[0].write_to_path(files[0])
    certificate.private_key_pem.write_to_path(files[1])
    config = secured.client_config("TLS", client=client)
    config.update(_certificate(client, *map(str, files)))
    if client == "aiokafka":
        config["ssl_context"].load_cert_chain(*files)
    with admin_of(client, config) as admin:
        every_call(admin)
        others = admin.lag("not-carols").groups["not-carols"]
    assert others.error.code == 30  # so it is she, and not just anybody


def _certificate(client, certfile, keyfile):
    return {
        "kafka-python": {"ssl_certfile": certfile, "ssl_keyfile": keyfile},
        "confluent": {
            "ssl.certificate.location": certfile,
            "ssl.key.location": keyfile,
        },
        "aiokafka": {},
    }[client]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_wrong_password_is_an_error_without_it(secured, mechanism):
    """The broker's refusal comes through at once, and says nothing of the password."""
    listener = "SASL_PLAIN" if mechanism == "PLAIN" else "SASL_SCRAM"
    config = secured.client_config(listener, user="alice", mechanism=mechanism)
    wrong = {**config, "sasl_plain_password": "gu3ss-of-mallory"}
    admin = guard(KafkaAdminClient(**config), config=wrong)
    with admin, pytest.raises(errors.SaslAuthenticationFailedError) as caught:
        admin.log_dirs(timeout=10.0)
    texts = f"{caught.value} {caught.value!r} {admin!r} {vars(caught.value)}"
    assert "gu3ss" not in texts
    assert caught.value.verdict.action == "CONFIGURE"


def test_mechanism_that_the_broker_has_not_got(secured):
    """The error has the mechanisms that there are."""
    config = secured.client_config("SASL_PLAIN", user="alice")
    wrong = {**config, "sasl_mechanism": "SCRAM-SHA-512"}
    admin = guard(KafkaAdminClient(**config), config=wrong)
    refused = pytest.raises(errors.UnsupportedSaslMechanismError, match="offers PLAIN")
    with admin, refused:
        admin.log_dirs(timeout=10.0)


def test_untrusted_certificate_says_so(secured):
    """TLS that fails is a matter of configuration, not of waiting."""
    config = secured.client_config("TLS")
    unknown = {**config, "ssl_cafile": None}
    admin = guard(KafkaAdminClient(**config), config=unknown)
    with admin, pytest.raises(errors.ClientConfigurationError, match="trusted"):
        admin.log_dirs(timeout=10.0)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_protocol_that_does_not_fit_the_port_ends_in_time(secured, protocol):
    """A plain client at a TLS port is told to look at the protocol."""
    config = secured.client_config()
    wrong = {
        "bootstrap_servers": secured.listener("TLS").bootstrap_servers,
        "security_protocol": protocol,
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": SECRET,
    }
    admin = guard(KafkaAdminClient(**config), config=wrong)
    with admin, pytest.raises(errors.KafkaGuardError) as caught:
        admin.log_dirs(timeout=5.0)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("listener", "protocol", "text"),
    [
        ("SASL_PLAIN", "PLAINTEXT", "requires SASL or TLS"),
        ("SASL_PLAIN", "SASL_SSL", "security protocol of this port"),
        ("PLAINTEXT", "SSL", "security protocol of this port"),
    ],
)
def test_port_of_another_protocol_is_a_matter_of_configuration(
    secured, listener, protocol, text
):
    """No code that no broker sent, and nothing to try again."""
    config = {
        "bootstrap.servers": secured.listener(listener).bootstrap_servers,
        "security.protocol": protocol,
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": SECRET,
    }
    calls = ClusterCalls()
    calls.cluster_view = ClusterView(lambda: read_confluent(config, make), make)
    with pytest.raises(errors.ClientConfigurationError, match=text) as caught:
        calls.log_dirs(timeout=5.0)
    calls.close_view()
    assert caught.value.code is None


def test_failing_token_provider_keeps_its_text_to_itself(secured):
    """A provider's exception may quote the token, so only its type is told."""

    def provider(_):
        raise RuntimeError(SECRET)

    good = secured.client_config("OAUTHBEARER", client="confluent", user="alice")
    bad = {k: v for k, v in good.items() if not k.startswith(("enable", "sasl.oauth"))}
    admin = guard(AdminClient(good), config={**bad, "oauth_cb": provider})
    refused = pytest.raises(errors.TokenProviderError, match="RuntimeError")
    with admin, refused as e:
        admin.log_dirs(timeout=10.0)
    assert SECRET not in str(e.value)
    assert e.value.__suppress_context__


UNTRANSLATABLE = (
    (read_kafka_python, {"client_dns_lookup": "x"}, "client_dns_lookup"),
    (read_kafka_python, {"ssl_keylog": "f"}, "ssl_keylog"),
    (read_kafka_python, {"security_protocol": "SASL_SSL"}, "sasl_mechanism"),
    (read_kafka_python, {"security_protocol": "TLS"}, "PLAINTEXT"),
    (read_kafka_python, {"bootstrap_servers": "host:port"}, "host:port"),
    (read_kafka_python, {"bootstrap_servers": []}, None),
    (read_confluent, {}, "bootstrap servers"),
    (
        read_confluent,
        {"bootstrap.servers": "h", "ssl.engine.location": "e"},
        "ssl.engine",
    ),
    (
        read_confluent,
        {"bootstrap.servers": "h", "ssl.keystore.location": "k"},
        "keystore",
    ),
    (read_confluent, {"bootstrap.servers": "h", "plugin.library.paths": "p"}, "plugin"),
    (
        read_confluent,
        {
            "metadata.broker.list": "h",
            "security.protocol": "sasl_plaintext",
            "sasl.mechanisms": "OAUTHBEARER",
        },
        "oauth_cb",
    ),
    (
        read_confluent,
        {"bootstrap.servers": "h", "sasl.oauthbearer.method": "oidc"},
        "sasl.oauthbearer.method",
    ),
    (read_aiokafka, {"security_protocol": "SSL"}, "ssl_context"),
    (read_aiokafka, {"sasl_new_thing": 1}, "sasl_new_thing"),
)


@pytest.mark.parametrize(("read", "config", "named"), UNTRANSLATABLE)
def test_what_cannot_be_translated_is_named(read, config, named):
    """Left out, it would lead to another place, or in as somebody else."""
    if named is None:  # kafka-python's own default stands in
        assert read(config, make).bootstrap == (("localhost", 9092),)
        return
    with pytest.raises(errors.ClientConfigurationError, match=named):
        read(config, make)


def test_settings_show_no_credential():
    """The repr of connection settings has no password, so it is safe to log."""
    config = {
        "bootstrap.servers": "[::1]:9093,broker,SASL_SSL://host:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": SECRET,
        "ssl.key.password": SECRET,
        "enable.ssl.certificate.verification": False,
        "group.id": "not about the connection",
    }
    settings = read_confluent(config, make)
    assert SECRET not in repr(settings)
    assert settings.bootstrap == (("::1", 9093), ("broker", 9092), ("host", 1))
    assert settings.tls().verify_mode == ssl.CERT_NONE
