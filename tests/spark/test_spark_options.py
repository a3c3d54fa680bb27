"""Options, columns and client settings: refused with what to write instead."""

from __future__ import annotations

import json
import pickle

import pytest
from pyspark.sql.datasource import DataSourceStreamWriter
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kafkaguard._errors.base import Action
from kafkaguard.errors import ClientConfigurationError
from kafkaguard.spark import foreach_batch
from kafkaguard_adapters.spark.columns import check_columns
from kafkaguard_adapters.spark.driver import data_source
from kafkaguard_adapters.spark.driver.data_source import KafkaGuardSource
from kafkaguard_adapters.spark.driver.options import from_options
from kafkaguard_adapters.spark.marker import TaskFailedError
from kafkaguard_adapters.spark.settings import make_settings
from kafkaguard_adapters.wire.client_settings import login
from tests.spark.spark_reading import letters_to

SERVERS = {"kafka.bootstrap.servers": "localhost:1"}


TYPES = {
    "bigint": LongType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "string": StringType(),
    "timestamp": TimestampType(),
    "map<string,binary>": MapType(StringType(), BinaryType()),
    "map<string,int>": MapType(StringType(), IntegerType()),
    "struct<a:int>": StructType([StructField("a", IntegerType())]),
}


def frame(ddl):
    """Make a schema; Spark's own parser wants a session."""
    columns = [column.split() for column in ddl.split(", ")]
    return StructType([StructField(name, TYPES[kind]) for name, kind in columns])


def refused(options):
    """Return what is said about options that are refused."""
    with pytest.raises(ClientConfigurationError) as caught:
        from_options({**SERVERS, **options})
    return caught.value.summary


def client(**config):
    """Return librdkafka's settings for a Java user's."""
    given = {name.replace("_", "."): value for name, value in config.items()}
    return make_settings("localhost:1", topic="t", config=given).client


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"polcy": "none"}, "did you mean 'policy'?"),
        ({"dead_letter_topic": "d"}, "there is no option 'dead_letter_topic'"),
        ({"bootstrap.servers": "b"}, "write kafka.bootstrap.servers"),
        ({"path": "x"}, "there is no option 'path'"),
        ({"kafka.linger": "5"}, "did you mean 'kafka.linger.ms'?"),
        ({"policy": "spark-snik"}, "did you mean 'spark-sink'?"),
        (
            {"policy": '{"on_reject": "fial"}'},
            "must be 'raise', 'dead_letter' or 'drop'",
        ),
        ({"policy": "{on_reject: drop}"}, "option policy is not valid JSON"),
        ({"topic": "t", "policy": json.dumps(letters_to("t"))}, "are the same"),
        ({"compacted": "yes"}, "is true or false, not 'yes'"),
        ({"max_record_bytes": "1MB"}, "is a number of bytes, not '1MB'"),
        ({"max_record_bytes": "0"}, "must be 1 or more"),
        ({"policy": '{"in_doubt": "ignore"}'}, "must be 'raise', 'report' or 'resend'"),
        ({"kafka.acks": "0"}, "only acks=all"),
        ({"kafka.enable.idempotence": "false"}, "a retry may write twice"),
        ({"kafka.partitioner": "random"}, "that Java's clients choose"),
        ({"kafka.interceptor.classes": "x"}, "Java classes"),
        ({"kafka.ssl.truststore.location": "x.jks"}, "kafka.ssl.ca.location"),
        ({"kafka.ssl.keystore.type": "JKS"}, "only PKCS12"),
        ({"kafka.request.required.acks": "1"}, "only acks=all"),
        (
            {"kafka.metadata.max.idle.ms": "1"},
            "does not support this setting of Java's",
        ),
        ({"kafka.securty.protocol": "SSL"}, "did you mean 'kafka.security.protocol'?"),
        ({"kafka.sasl.jaas.config": "OAuthBearer"}, "kafka.sasl.username"),
        ({"kafka.linger.ms": "soon"}, "kafka.linger.ms: Invalid value for"),
        ({"kafka.linger.ms": "-1"}, "is outside allowed range 0..900000"),
        ({"kafka.batch.size": "0"}, "is outside allowed range 1..2147483647"),
        ({"kafka.batch.size": "big"}, "kafka.batch.size: Invalid value"),
        ({"kafka.buffer.memory": "32 MB"}, "kafka.buffer.memory: the value is not a"),
        ({"kafka.socket.keepalive.enable": "on?"}, "true or false"),
        ({"kafka.compression.type": "zip"}, "(one of none, gzip, snappy, lz4, zstd)"),
        ({"kafka.security.protocol": "TLS"}, "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_S"),
        ({"kafka.delivery.timeout.ms": "0"}, "0 would mean no limit"),
        (
            {"kafka.message.timeout.ms": "00"},
            "kafka.message.timeout.ms: 0 would mean no limit",
        ),
        ({"kafka.retries": "0"}, "the client refuses the settings: "),
        (
            {"kafka.linger.ms": "x", "kafka.batch.size": "y"},
            "kafka.linger.ms: Invalid value",
        ),
    ],
)
def test_wrong_option_is_refused_with_the_right_one(options, said):
    """Each message has what to write instead."""
    assert said in refused(options)


def test_transactional_id_is_refused_and_says_why():
    """A transaction would not make a Spark job exactly-once."""
    assert "not make the job exactly-once" in refused({"kafka.transactional.id": "x"})


@pytest.mark.parametrize(
    "name", ["acks", "linger.ms", "key.serializer", "fetch.max.wait.ms"]
)
def test_producer_setting_without_its_prefix_is_refused(name):
    """Spark's own sink passes over it silently."""
    said = f"option {name!r} does nothing without its prefix: write kafka.{name}"
    assert said in refused({name: "x"})


@pytest.mark.parametrize(
    "servers",
    [
        *("no host", "a:b:c", "host:99999", "host:0", "host:", "::1"),
        *("http://h:1", "a:1,b c", " ", ",", ""),
    ],
)
@pytest.mark.parametrize(
    "use",
    [
        lambda servers: make_settings(servers, topic="t"),
        lambda servers: from_options({"kafka.bootstrap.servers": servers}),
        lambda servers: foreach_batch("t", bootstrap_servers=servers),
    ],
)
def test_address_that_cannot_be_parsed_is_refused_with_what_is_allowed(servers, use):
    """At once, and for all ways to write; librdkafka would try and time out."""
    with pytest.raises(ClientConfigurationError, match="host:port") as caught:
        use(servers)
    assert caught.value.verdict.action is Action.CONFIGURE


@pytest.mark.parametrize(
    "servers",
    ["host", "host:9092", "a-b.c_d:1, e:65535,", "[::1]:9092", "SASL_SSL://h:9093"],
)
def test_address_that_librdkafka_understands_passes(servers):
    """What is checked is the form only."""
    assert make_settings(servers, topic="t").servers == servers


def test_password_before_an_address_is_not_shown():
    """Whoever writes a URL may have put one in."""
    with pytest.raises(ClientConfigurationError) as caught:
        make_settings("me:hunter2@host:1", topic="t")
    assert "hunter2" not in str(caught.value)


MECHANISMS = "one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"sasl.mechanism": "PLIAN"}, MECHANISMS),
        ({"sasl.mechanisms": "plain"}, MECHANISMS),
        ({"sasl.mechanism": "SCRAM-SHA-1024"}, MECHANISMS),
        ({"sasl.mechanism": "GSSAPI"}, MECHANISMS),
        ({}, f"kafka.sasl.mechanism: it is missing: {MECHANISMS}"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.password": None},
            "sasl.username and sasl.password must be set",
        ),
        (
            {"security.protocol": "SASL"},
            "(one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)",
        ),
        (
            {"security.protocol": "SSL", "ssl.ca.location": "/nowhere/ca.pem"},
            "ssl.ca.location failed",
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.location": "/nowhere/a.p12"},
            "`ssl.keystore.password` is mandatory",
        ),
    ],
)
def test_setting_to_mend_is_named_and_not_the_one_that_switches_it_on(config, said):
    """Security is off without security.protocol, and every mistake with it."""
    login = {"sasl.username": "ann", "sasl.password": "hunter2"}
    given = {"security.protocol": "SASL_PLAINTEXT", **login, **config}
    given = {name: value for name, value in given.items() if value is not None}
    with pytest.raises(ClientConfigurationError) as caught:
        make_settings("b:1", topic="t", config=given)
    assert said in caught.value.summary
    assert "hunter2" not in str(caught.value)


def test_missing_servers_are_asked_for():
    """A write without bootstrap servers is refused: there is no default address."""
    with pytest.raises(ClientConfigurationError, match=r"kafka\.bootstrap\.servers"):
        from_options({"topic": "t"})


def test_options_are_read_whatever_their_case():
    """Spark hands them over in lower case, people write them as they like."""
    options = {**SERVERS, "Topic": "t", "COMPACTED": "True", "max_record_bytes": "9"}
    settings = from_options(options | {"checkpointLocation": "x"})
    assert (settings.topic, settings.compacted, settings.max_record_bytes) == (
        "t",
        True,
        9,
    )


def test_java_settings_are_translated():
    """What a Spark user has in the options goes on working."""
    jaas = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="ann" password="p;w";'
    )
    found = client(
        sasl_jaas_config=jaas,
        max_request_size="5000000",
        buffer_memory="1048576",
        ssl_truststore_location="/etc/ca.pem",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        acks="all",
    )
    assert found["sasl.username"] == "ann"
    assert found["sasl.password"] == "p;w"
    assert found["message.max.bytes"] == "5000000"
    assert found["queue.buffering.max.kbytes"] == "1024"
    assert found["ssl.ca.location"] == "/etc/ca.pem"
    assert found["enable.idempotence"] == "true"
    assert found["partitioner"] == "murmur2_random"


@pytest.mark.parametrize("name", ["linger.ms", "kafka.linger.ms", "Kafka.Linger.ms"])
def test_client_settings_are_known_with_and_without_sparks_prefix(name):
    """Spark users write it before each of them."""
    assert make_settings("b:1", topic="t", config={name: 5}).client["linger.ms"] == "5"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"linger.ms": 5, "kafka.linger.ms": 6}, "kafka.linger.ms: it is given twice"),
        (
            {"message.timeout.ms": 5, "delivery.timeout.ms": 6},
            "kafka.delivery.timeout.ms: it is given under two names",
        ),
        ({1: 2}, "config: the name of a setting must be a string, not int"),
        ({"bootstrap.servers": "c:1"}, "it has an argument of its own"),
        ({"metadata.broker.list": "c:1"}, "it has an argument of its own"),
        ("sasl.password=hunter2", "config is a mapping of names to values, not str"),
    ],
)
def test_client_settings_that_contradict_each_other_are_refused(config, said):
    """No value is repeated in the message."""
    with pytest.raises(ClientConfigurationError) as caught:
        make_settings("b:1", topic="t", config=config)
    assert said in caught.value.summary
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("argument", "value", "said"),
    [
        ("topic", "", "topic is empty"),
        ("topic", 5, "topic is the name of a topic, not int"),
        ("policy", 5, "a policy is a preset's name, a path, a mapping or a Retry"),
        ("policy", "nope.yaml", "nope.yaml cannot be read"),
        ("compacted", "yes", "compacted is True, False or None, not str"),
        ("max_record_bytes", "1MB", "max_record_bytes is a number of bytes, not str"),
        ("max_record_bytes", True, "max_record_bytes is a number of bytes, not bool"),
        ("bootstrap_servers", ["b:1"], "bootstrap_servers is text"),
    ],
)
def test_argument_of_a_wrong_type_is_refused(argument, value, said):
    """Whoever has no type checker learns it here."""
    arguments = {"bootstrap_servers": "b:1", "topic": "t", argument: value}
    with pytest.raises(ClientConfigurationError) as caught:
        make_settings(arguments.pop("bootstrap_servers"), **arguments)
    assert said in caught.value.summary


def test_password_is_in_no_text():
    """Neither a settings' repr nor a refusal shows a value."""
    settings = make_settings("b:1", topic="t", config={"sasl.password": "hunter2"})
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in refused({"kafka.security.protocol": "hunter2"})


def test_settings_pickle():
    """They go to the executors, so they hold plain values."""
    settings = make_settings("b:1", topic="t", policy=letters_to("d"))
    assert pickle.loads(pickle.dumps(settings)) == settings


@pytest.mark.parametrize(
    ("schema", "topic", "said"),
    [
        ("Key string, value string", "t", "column Key would be ignored"),
        ("key string, VALUE string", "t", "reads value"),
        ("key int, value string", "t", "column key is int, and must be string or"),
        ("key string", "t", "there is no column value; the columns are key"),
        ("valu string", "t", "no column value; did you mean 'valu'?"),
        ("key string, value int", "t", "column value is int, and must be string or"),
        ("value string", None, "no topic is named"),
        ("value string, topic string", "t", "both a column topic and the option"),
        ("value string, headers string", "t", "must be array<struct<"),
        ("value string, headers map<string,binary>", "t", "write map_entries(headers)"),
        ("value string, headers map<string,int>", "t", "transform(map_entries(header"),
        ("value map<string,int>", "t", "write to_json(value)"),
        ("key struct<a:int>, value string", "t", "write to_json(key)"),
        ("value string, partition bigint", "t", "partition is bigint, and must be int"),
    ],
)
def test_wrong_columns_are_refused(schema, topic, said):
    """What Spark's sink passes over, or finds late, is said before anything starts."""
    settings = make_settings("b:1", topic=topic)
    with pytest.raises(ClientConfigurationError) as caught:
        check_columns(frame(schema), settings)
    assert said in caught.value.summary


def test_source_without_columns_is_told_as_empty():
    """As an empty file is, whose first line would have the names."""
    settings = make_settings("b:1", topic="t")
    said = "there is no column value, and no other: is the source empty?"
    with pytest.raises(ClientConfigurationError) as caught:
        check_columns(StructType(), settings)
    assert said == caught.value.summary


def test_doubled_column_is_refused():
    """The first of them would win silently."""
    schema = StructType().add("value", "string").add("value", "binary")
    with pytest.raises(ClientConfigurationError, match="two columns value"):
        check_columns(schema, make_settings("b:1", topic="t"))


def test_declaring_compacted_fits_one_topic_only():
    """compacted= with a column `topic` is refused, because it may name many topics."""
    schema = frame("topic string, value string")
    with pytest.raises(ClientConfigurationError, match="compacted describes one"):
        check_columns(schema, make_settings("b:1", compacted=True))


def test_other_columns_are_left_out():
    """They may be there for the order."""
    schema = frame("at timestamp, value string, key binary")
    settings = make_settings("b:1", topic="t")
    assert check_columns(schema, settings) == ["value", "key"]


@pytest.mark.parametrize("name", [".", "a b", "plain\0", "ü", "x" * 250])
def test_name_that_no_topic_can_have_is_refused(name):
    """With what is allowed, before a broker is asked."""
    with pytest.raises(ClientConfigurationError, match="1 to 249") as caught:
        make_settings("b:1", topic=name)
    assert caught.value.summary.startswith("topic: ")
    with pytest.raises(ClientConfigurationError, match="not a valid topic name"):
        make_settings("b:1", topic="t", policy=letters_to(name))


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required "
NESTED = PLAIN + 'serviceName="k"\n password = "a \\" username=\'x\'"\n username=u;'


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (PLAIN + 'username="u" password="p";', ("u", "p")),
        (PLAIN + 'password="p" username="u";', ("u", "p")),
        (PLAIN + "password='p' username='u' ;", ("u", "p")),
        (NESTED, ("u", "a \" username='x'")),
        ("kafkashaded." + PLAIN + "username='u' password='a;b\"c';", ("u", 'a;b"c')),
        (PLAIN + 'username="u";', None),
        ("x.OAuthBearerLoginModule required username='u' password='p';", None),
    ],
)
def test_line_of_jaas_is_read_as_java_does(line, found):
    """In either order, in either quotes, with quotes within quotes."""
    assert login(line) == found


def test_stream_of_the_data_source_is_refused_where_pyspark_has_no_writer_for_it(
    monkeypatch,
):
    """PySpark 4.0; the text says what to use instead."""
    monkeypatch.setattr(data_source, "StreamArrowWriter", DataSourceStreamWriter)
    source = KafkaGuardSource({**SERVERS, "topic": "t"})
    with pytest.raises(TaskFailedError, match=r"PySpark 4\.1 or newer: use foreachB"):
        source.streamWriter(frame("value string"), False)
