"""Rules for what a human must correct: rights, settings, topics."""

from __future__ import annotations

from kafkaguard import _errors as e
from kafkaguard._errors.base import Action
from kafkaguard._verdicts.rules.rule import ADMIN, Rule, rule

RULES: tuple[Rule, ...] = (
    rule(
        "mechanism-not-offered",
        Action.CONFIGURE,
        "the broker does not offer this SASL mechanism: set sasl.mechanism to one that "
        "it offers",
        on=(33,),
        scenario="PLAIN on a listener with SCRAM, or a misspelt mechanism.",
        source="KIP-43; SaslServerAuthenticator",
    ),
    rule(
        "port-without-login",
        Action.CONFIGURE,
        "the listener takes no SASL login: set security.protocol to that of this "
        "listener, or use the port of one with SASL",
        on=(34,),
        scenario="A client with SASL on a PLAINTEXT or SSL listener.",
        source="KIP-43; KafkaApis.handleSaslHandshakeRequest",
    ),
    rule(
        "denied",
        Action.CONFIGURE,
        "access is denied: grant the right (ACL) or correct the credentials",
        on=(e.AuthenticationError, e.AuthorizationError),
        scenario=(
            "Repeating a denied request hides the cause behind a timeout; repeating a "
            "wrong password can lock the account."
        ),
        source="kafka-python #2078; librdkafka #2215, #2543; KafkaAdminClient",
    ),
    rule(
        "tls-failed",
        Action.CONFIGURE,
        "TLS failed, and nothing was sent: check the CA that the client trusts, its "
        "own certificate and key, and that the port is one with TLS",
        on=(-181,),
        scenario="A CA that the client does not know; an expired certificate.",
        source="librdkafka RD_KAFKA_RESP_ERR__SSL",
    ),
    rule(
        "misconfigured-for-good",
        Action.CONFIGURE,
        "the client cannot work with these settings: correct them, then build a new "
        "client",
        on=(35, 50, 81, 112, 128, e.ClientConfigurationError),
        flag=("fatal", "abort"),
        scenario="A new client, or a new transaction, would fail the same way.",
        source="librdkafka #2994; KIP-1050",
    ),
    rule(
        "topic-not-there",
        Action.CONFIGURE,
        "the brokers know no such topic: create it, or correct its name",
        on=(e.UnknownTopicOrPartitionError,),
        phase=("enqueue",),
        scenario="send() waited max_block_ms for the topic's metadata.",
        source="kafka-rest #133; kafka-python #607",
    ),
    rule(
        "administrator-must-mend",
        Action.CONFIGURE,
        "the cluster refuses the request: correct it as the broker's text says",
        on=(17, 37, 39, 42),
        apis=ADMIN,
        scenario="A name, a count or a setting that the cluster does not accept.",
        source="franz-go #751; kafkajs #625",
    ),
    rule(
        "settings-refused",
        Action.CONFIGURE,
        "the broker refuses this setting or lacks this feature: change the setting",
        on=(
            *(4, 23, 24, 26, 44, 50, 54, 61, 64, 66, 67, 73, 76, 81, 93),
            *(104, 112, 114, 115, 128, 130),
        ),
        scenario="A session timeout out of bounds, a foreign cluster, a policy.",
        source="KIP-1050; franz-go #751",
    ),
    rule(
        "client-refuses-settings",
        Action.CONFIGURE,
        "the client refuses a setting or an argument, and nothing was sent: change it",
        on=(e.ClientConfigurationError,),
        scenario="A codec that is not installed, an option that does not exist.",
        source="KIP-1050; kafka.errors.KafkaConfigurationError",
    ),
    rule(
        "configuration",
        Action.CONFIGURE,
        "the configuration is wrong for this cluster: change it",
        on=(e.InvalidConfigurationError,),
        scenario="Kafka's own group of configuration errors.",
        source="KIP-1050; InvalidConfigurationException",
    ),
)
