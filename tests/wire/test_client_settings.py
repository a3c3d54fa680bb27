"""Client settings by Kafka's own names: files of them, Java's words, misspelt names."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from hypothesis import given
from hypothesis import strategies as st
from kafka import KafkaConsumer, KafkaProducer

from kafkaguard import errors, guard
from kafkaguard._cluster.reports import make
from kafkaguard_adapters.confluent.settings import read_settings
from kafkaguard_adapters.wire.client_settings import (
    SettingError,
    check_names,
    known_names,
    read_properties,
    translate,
)

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SECRET = 'a"b\\c;d e'


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("a.b=c", {"a.b": "c"}),
        ("a.b = c", {"a.b": "c"}),
        ("a.b: c", {"a.b": "c"}),
        ("a.b c", {"a.b": "c"}),
        ("a.b=", {"a.b": ""}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("\ufeffa=1\r\nb=2\rc=3\n", {"a": "1", "b": "2", "c": "3"}),
        ("# x\n ! y\n\n  a=1  ", {"a": "1"}),
        ("a=one,\\\n   two", {"a": "one,two"}),
        ("a=c:\\\\x\nb=\\u00e4\\t\\:", {"a": "c:\\x", "b": "ä\t:"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a\\ b=1", {"a b": "1"}),
        ("a=1\\", {"a": "1"}),
    ],
)
def test_file_is_read_as_java_reads_it(text, settings):
    """Separators, comments, line ends, continued lines, escapes and a BOM."""
    found = read_properties(text)
    assert settings == {name: value for name, (value, _) in found.items()}


def test_every_setting_knows_its_line():
    """Also after a continued one; a mistake is then easily found."""
    found = read_properties("\n# x\na=1,\\\n2\nb=3\n")
    assert [line for _, line in found.values()] == [3, 5]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a=1\n\nsecurity.protocol\n", "line 3: write it as name=value"),
        ("=1", "line 1: write it as name=value"),
        ("a=1\nb=2\na=3", "line 3: a is already set in line 1"),
    ],
)
def test_line_that_cannot_be_meant_is_refused(text, said):
    """A malformed line of a settings file is reported with its number."""
    with pytest.raises(SettingError, match=said):
        read_properties(text)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z.]{1,9}", fullmatch=True),
        st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"])),
    )
)
def test_what_is_written_with_escapes_is_read_back(settings):
    """Whatever the value, as long as it has no blanks at its ends."""
    settings = {name: value.strip() for name, value in settings.items()}
    escaped = {
        name: "".join(rf"\u{ord(letter):04x}" for letter in value)
        for name, value in settings.items()
    }
    lines = (f"{name}={value}" for name, value in escaped.items())
    found = read_properties("\n".join(lines))
    assert settings == {name: value for name, (value, _) in found.items()}


@pytest.mark.parametrize(
    "options",
    [
        f"username=ann password={json.dumps(SECRET)};",
        f"password={json.dumps(SECRET)}\n  username='ann'".replace("'", '"') + ";",
        f'user_x="y" username = "ann"  password = {json.dumps(SECRET)} ;',
    ],
)
@pytest.mark.parametrize("module", [PLAIN, PLAIN.replace("Plain", "Scram")])
def test_login_of_java_is_translated(module, options):
    """In whatever order, quoted or not; quotes and backslashes are escaped there."""
    expected = {"sasl.username": "ann", "sasl.password": SECRET}
    assert expected == translate({"sasl.jaas.config": f"{module} {options}"})


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "f"},
            {"ssl.ca.location": "f"},
        ),
        ({"ssl.truststore.location": "f.pem"}, {"ssl.ca.location": "f.pem"}),
        ({"ssl.truststore.certificates": "---"}, {"ssl.ca.pem": "---"}),
        (
            {"ssl.keystore.type": "pem", "ssl.keystore.location": "f"},
            {"ssl.certificate.location": "f", "ssl.key.location": "f"},
        ),
        (
            {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "f"},
            {"ssl.keystore.location": "f"},
        ),
        (
            {"ssl.endpoint.identification.algorithm": ""},
            {"ssl.endpoint.identification.algorithm": "none"},
        ),
        ({"metadata.broker.list": "h"}, {"bootstrap.servers": "h"}),
        ({"linger.ms": 5}, {"linger.ms": 5}),
    ],
)
def test_words_of_java_become_librdkafkas(settings, expected):
    """Java's names of settings and stores are translated to librdkafka's."""
    assert expected == translate(settings)


@pytest.mark.parametrize(
    ("settings", "name", "said"),
    [
        ({"ssl.truststore.location": "f.jks"}, "ssl.truststore.location", "PEM"),
        ({"ssl.truststore.password": SECRET}, "ssl.truststore.password", "PEM"),
        ({"ssl.keystore.type": "JKS"}, "ssl.keystore.type", "only PKCS12 and PEM"),
        ({"sasl.jaas.config": f"Krb5 {SECRET}"}, "sasl.jaas.config", "sasl.username"),
        (
            {"sasl.jaas.config": f'{PLAIN} password="{SECRET}";'},
            "sasl.jaas.config",
            "sasl.username",
        ),
        (
            {"retries": 1, "message.send.max.retries": 2},
            "retries",
            "given under two names",
        ),
    ],
)
def test_what_cannot_be_translated_is_refused(settings, name, said):
    """With what to write instead, and never with the value."""
    with pytest.raises(SettingError, match=said) as caught:
        translate(settings)
    assert name == caught.value.name
    assert SECRET not in str(caught.value)


def test_all_names_of_both_clients_are_known():
    """Java's and librdkafka's, each under its own."""
    assert "sasl.jaas.config" in known_names("java") - known_names("librdkafka")
    assert "sasl.username" in known_names("librdkafka") - known_names("java")
    both = known_names("java", "librdkafka")
    assert known_names("java") | known_names("librdkafka") == both
    check_names(both, both)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("securty.protocol", "; did you mean 'security.protocol'?"),
        ("Security.Protocol", "; did you mean 'security.protocol'?"),
        ("sasl.pasword", "; did you mean 'sasl.password'?"),
        ("xyzzy", ""),
        ("acks ", "; did you mean 'acks'?"),
    ],
)
def test_name_that_no_client_has_is_refused(name, hint):
    """Passed over, a connection would be in plaintext."""
    given = {"bootstrap.servers": "h", name: "SSL"}
    text = f"{name!r}: Kafka's client has no such setting{hint}"
    with pytest.raises(errors.ClientConfigurationError) as caught:
        read_settings(given, make)
    assert text == caught.value.summary


@pytest.mark.parametrize(
    ("client", "config", "name", "meant"),
    [
        (
            lambda: AdminClient({"bootstrap.servers": "localhost:1", "log_level": 0}),
            {"bootstrap.servers": "localhost:1", "securty.protocol": "SSL"},
            "securty.protocol",
            "security.protocol",
        ),
        (
            lambda: KafkaConsumer(bootstrap_servers="localhost:1", api_version=(2, 8)),
            {"securty_protocol": "SSL"},
            "securty_protocol",
            "security_protocol",
        ),
    ],
)
def test_guard_refuses_a_setting_that_its_client_has_not(client, config, name, meant):
    """At once, and not when its cluster is asked for the first time."""
    made = client()
    with pytest.raises(errors.ClientConfigurationError) as caught:
        guard(made, config=config)
    said = f"guard(): config: {name!r}: Kafka's client has no such setting; "
    assert f"{said}did you mean {meant!r}?" == caught.value.summary
    getattr(made, "close", lambda: None)()


@pytest.mark.parametrize(
    ("factory", "config", "name", "meant"),
    [
        (
            Producer,
            {"enable.idempotense": True},
            "enable.idempotense",
            "enable.idempot",
        ),
        (KafkaProducer, {"linger_m": 5}, "linger_m", "linger_ms"),
        (
            KafkaProducer,
            {"bootstrap.servers": "h:1"},
            "bootstrap.servers",
            "bootstrap_",
        ),
    ],
)
def test_guard_refuses_a_misspelt_setting_before_the_factory(
    factory, config, name, meant
):
    """The client itself names no right one, or cannot even be called."""
    with pytest.raises(errors.ClientConfigurationError) as caught:
        guard(factory=factory, config=config)
    said = f"guard(): config: {name!r}: Kafka's client has no such setting; "
    assert caught.value.summary.startswith(f"{said}did you mean '{meant}")


def test_what_a_factory_raises_is_of_both_classes():
    """A value that the client refuses raises an error of both classes."""
    config = {"bootstrap.servers": "localhost:1", "delivery.timeout.ms": "ten"}
    with pytest.raises(KafkaException) as caught:
        guard(factory=Producer, config=config)
    assert isinstance(caught.value, errors.ClientConfigurationError)
    assert "message.timeout.ms" in str(caught.value)


@pytest.mark.parametrize("config", [{}, None, {"bootstrap.servers": ""}])
@pytest.mark.parametrize("kind", [Producer, Consumer, AdminClient])
def test_a_factory_of_confluent_kafka_needs_brokers(kind, config):
    """A client without a broker could be built, and would never connect."""
    group = {} if kind is not Consumer else {"group.id": "g"}
    with pytest.raises(errors.ClientConfigurationError) as caught:
        guard(factory=kind, config=None if config is None else config | group)
    assert "config has no bootstrap.servers" in caught.value.summary


def test_brokers_may_have_their_old_name():
    """``metadata.broker.list`` is librdkafka's other name for bootstrap.servers."""
    config = {"metadata.broker.list": "localhost:1", "log_level": 0}
    guard(factory=AdminClient, config=config).close()


def test_guard_leaves_the_settings_of_a_factory_of_ones_own_alone():
    """A class of the user's may take what it likes."""

    class Mine(Producer):
        """A producer with a setting more."""

        def __init__(self, settings):
            servers = settings["my.servers"]
            super().__init__({"bootstrap.servers": servers, "enable.idempotence": True})

    config = {"my.servers": "localhost:1", "enable.idempotence": True}
    producer = guard(factory=Mine, config=config)
    assert isinstance(producer, Mine)
    producer.close(0)


async def test_guard_refuses_a_setting_that_aiokafka_has_not():
    """config= with an unknown keyword of aiokafka is refused."""
    from aiokafka import AIOKafkaProducer

    made = AIOKafkaProducer(bootstrap_servers="localhost:1")
    with pytest.raises(errors.ClientConfigurationError, match="'security_protocol'"):
        guard(made, config={"securty_protocol": "SSL"})
    await made.stop()


def test_guard_leaves_the_settings_of_a_class_of_ones_own_alone():
    """config= of a subclass may have any settings."""

    class Mine(KafkaConsumer):
        """A consumer with a setting more."""

        def __init__(self, region, **settings):
            super().__init__(**settings)

    made = Mine("eu", bootstrap_servers="localhost:1", api_version=(2, 8))
    with guard(made, config={"region": "eu", "bootstrap_servers": "localhost:1"}) as g:
        assert isinstance(g, Mine)


@pytest.mark.java
def test_list_of_names_is_up_to_date(load_script):
    """The generator writes the list of setting names as it is in the repository."""
    generator = load_script("generate_setting_names")
    assert generator.content() == generator.PATH.read_text()
