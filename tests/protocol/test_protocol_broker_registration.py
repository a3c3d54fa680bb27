"""BrokerRegistration against kio, against Kafka's own classes and a real controller."""

from __future__ import annotations

import importlib
import io
import socket
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from kafkaguard.errors import ProtocolError
from kafkaguard.protocol import broker_registration as br
from kafkaguard.protocol import format_uuid, message
from kafkaguard.testing import KafkaCluster
from kafkaguard.testing.cluster.jars import kafka_jars
from kafkaguard.testing.cluster.java import java

VERSIONS = range(5)
TEXT = st.text(max_size=40)
INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
LISTENER = {
    "name": TEXT,
    "host": TEXT,
    "port": st.integers(0, 2**16 - 1),
    "security_protocol": INT16,
}
FEATURE = {
    "name": TEXT,
    "min_supported_version": INT16,
    "max_supported_version": INT16,
}
FIRST = {
    "broker_id": INT32,
    "cluster_id": TEXT,
    "incarnation_id": st.uuids(allow_nil=True),
    "listeners": st.lists(st.fixed_dictionaries(LISTENER), max_size=3),
    "features": st.lists(st.fixed_dictionaries(FEATURE), max_size=3),
    "rack": st.none() | TEXT,
}
LATER = {
    1: {"is_migrating_zk_broker": st.booleans()},
    2: {"log_dirs": st.lists(st.uuids(allow_nil=True), max_size=3)},
    3: {"previous_broker_epoch": INT64},
}
GOLDEN = {
    "broker_id": 7,
    "cluster_id": "3MfdxWlNSn2UDYsmDP1pYg",
    "incarnation_id": UUID(int=2**127 + 5),
    "listeners": [
        {"name": "ä", "host": "h", "port": 65535, "security_protocol": -1},
        {"name": "", "host": "", "port": 0, "security_protocol": 3},
    ],
    "features": [
        {"name": "f", "min_supported_version": 0, "max_supported_version": 32767}
    ],
    "rack": None,
    "is_migrating_zk_broker": True,
    "log_dirs": [UUID(int=1), UUID(int=0)],
    "previous_broker_epoch": 2**62,
}


def fields(version):
    """The fields of a version, with their values."""
    later = [more for since, more in LATER.items() if since <= version]
    return FIRST | {name: values for more in later for name, values in more.items()}


def of_version(content, version):
    """What of the content a version has."""
    return {name: content[name] for name in fields(version)}


def kio_module(version, side):
    """Kio's classes of one version and direction."""
    return importlib.import_module(f"kio.schema.broker_registration.v{version}.{side}")


def some(identity):
    """An id as kio has it: None is the zero id."""
    return identity if identity.int else None


def to_kio(module, content):
    """The same as an object of kio."""
    lists = {
        "listeners": tuple(module.Listener(**each) for each in content["listeners"]),
        "features": tuple(module.Feature(**each) for each in content["features"]),
        "incarnation_id": some(content["incarnation_id"]),
    }
    if "log_dirs" in content:
        lists["log_dirs"] = tuple(map(some, content["log_dirs"]))
    return module.BrokerRegistrationRequest(**{**content, **lists})


@pytest.mark.parametrize("version", VERSIONS)
@settings(deadline=None)
@given(data=st.data())
def test_request_is_byte_equal_with_kio(version, data):
    """What kio writes we write, and each reads what the other wrote."""
    content = data.draw(st.fixed_dictionaries(fields(version)))
    module = kio_module(version, "request")
    theirs = io.BytesIO()
    request = to_kio(module, content)
    entity_writer(module.BrokerRegistrationRequest)(theirs, request)
    ours = br.serialize_request(content, version, with_header=False)
    assert theirs.getvalue() == ours
    read, size = entity_reader(module.BrokerRegistrationRequest)(ours, 0)
    assert (request, len(ours)) == (read, size)
    assert content == br.deserialize_request(theirs.getvalue(), version, False)


@pytest.mark.parametrize("version", VERSIONS)
@settings(deadline=None)
@given(code=st.sampled_from(ErrorCode), throttle=INT32, epoch=INT64)
def test_response_is_byte_equal_with_kio(version, code, throttle, epoch):
    """For the error codes that kio knows; others are kept here too."""
    module = kio_module(version, "response")
    response = module.BrokerRegistrationResponse(
        throttle_time=timedelta(milliseconds=throttle),
        error_code=code,
        broker_epoch=epoch,
    )
    content = {
        "throttle_time_ms": throttle,
        "error_code": code.value,
        "broker_epoch": epoch,
    }
    theirs = io.BytesIO()
    entity_writer(module.BrokerRegistrationResponse)(theirs, response)
    ours = br.serialize_response(content, version, with_header=False)
    assert theirs.getvalue() == ours
    read, _ = entity_reader(module.BrokerRegistrationResponse)(ours, 0)
    assert response == read
    assert content == br.deserialize_response(theirs.getvalue(), version, False)


@pytest.mark.parametrize("version", VERSIONS)
def test_header_is_byte_equal_with_kio(version):
    """Each version is flexible, so the header has tags."""
    header = importlib.import_module("kio.schema.request_header.v2.header")
    theirs = io.BytesIO()
    entity_writer(header.RequestHeader)(
        theirs,
        header.RequestHeader(
            request_api_key=62,
            request_api_version=version,
            correlation_id=9,
            client_id="ä",
        ),
    )
    about = {"correlation_id": 9, "client_id": "ä"}
    ours = br.serialize_request({}, version, request_header=about)
    assert ours == theirs.getvalue() + br.serialize_request({}, version, False)


def test_log_dirs_are_left_out_where_the_version_lacks_them():
    """Older controllers would not understand them; a broker sends its list anyway."""
    content = {"log_dirs": [uuid4()], "previous_broker_epoch": 5}
    assert br.serialize_request(content, 1) == br.serialize_request({}, 1)
    assert br.serialize_request(content, 2) != br.serialize_request({}, 2)
    with pytest.raises(ProtocolError, match="is_migrating_zk_broker: this version"):
        br.serialize_request({"is_migrating_zk_broker": True}, 0)
    br.serialize_request({"is_migrating_zk_broker": False}, 0)


def test_the_five_functions_of_the_message():
    """Key, versions, and the two directions of a client."""
    assert br.api_key() == 62
    assert br.min_supported_version() == 0
    assert br.max_supported_version() == 4
    sent = br.serialize_response({"error_code": 104}, 4)
    assert br.deserialize_response(sent, 4) == {
        "header": {"correlation_id": 0},
        "throttle_time_ms": 0,
        "error_code": 104,
        "broker_epoch": -1,
    }


@pytest.fixture(scope="module")
def jvm():
    """A Java machine that has Kafka's own classes."""
    port = launch_gateway(
        classpath=f"{kafka_jars('4.4.0')}/*", java_path=str(java()), die_on_exit=True
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    yield gateway.jvm
    gateway.shutdown()


def to_java(jvm, content):
    """The same as an object of Kafka's own class."""
    kafka = jvm.org.apache.kafka.common
    data = kafka.message.BrokerRegistrationRequestData()
    uuid = kafka.Uuid.fromString
    data.setBrokerId(content["broker_id"]).setClusterId(content["cluster_id"])
    data.setIncarnationId(uuid(format_uuid(content["incarnation_id"])))
    data.setRack(content["rack"])
    for each in content["listeners"]:
        listener = kafka.message.BrokerRegistrationRequestData.Listener()
        listener.setName(each["name"]).setHost(each["host"]).setPort(each["port"])
        data.listeners().add(listener.setSecurityProtocol(each["security_protocol"]))
    for each in content["features"]:
        feature = kafka.message.BrokerRegistrationRequestData.Feature()
        feature.setMinSupportedVersion(each["min_supported_version"])
        feature.setMaxSupportedVersion(each["max_supported_version"])
        data.features().add(feature.setName(each["name"]))
    data.setIsMigratingZkBroker(content.get("is_migrating_zk_broker", False))
    for each in content.get("log_dirs", ()):
        data.logDirs().add(uuid(format_uuid(each)))
    return data.setPreviousBrokerEpoch(content.get("previous_broker_epoch", -1))


@pytest.mark.xdist_group("java")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("rack", [None, "", "r"])
@pytest.mark.java
def test_request_is_what_kafkas_own_class_writes_and_reads(jvm, version, rack):
    """The bytes equal golden values of the classes of kafka-clients."""
    content = of_version({**GOLDEN, "rack": rack}, version)
    kafka = jvm.org.apache.kafka.common
    data = to_java(jvm, content)
    theirs = kafka.protocol.MessageUtil.toByteBufferAccessor(data, version)
    ours = br.serialize_request(content, version, with_header=False)
    assert bytes(theirs.buffer().array()) == ours
    assert content == br.deserialize_request(ours, version, False)
    buffer = kafka.protocol.ByteBufferAccessor(jvm.java.nio.ByteBuffer.wrap(ours))
    read = kafka.message.BrokerRegistrationRequestData(buffer, version)
    assert data.equals(read)


@pytest.mark.xdist_group("java")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("code", [0, 104, 119, 136, 999])
@pytest.mark.java
def test_response_is_what_kafkas_own_class_writes(jvm, version, code):
    """Error codes that Kafka has, and one that it does not."""
    kafka = jvm.org.apache.kafka.common
    data = kafka.message.BrokerRegistrationResponseData()
    data.setThrottleTimeMs(3).setErrorCode(code).setBrokerEpoch(2**40)
    theirs = kafka.protocol.MessageUtil.toByteBufferAccessor(data, version)
    content = {"throttle_time_ms": 3, "error_code": code, "broker_epoch": 2**40}
    ours = br.serialize_response(content, version, with_header=False)
    assert bytes(theirs.buffer().array()) == ours


@pytest.mark.xdist_group("java")
@pytest.mark.java
def test_versions_are_those_of_kafkas_own_class(jvm):
    """A newer Kafka that has more of them shows here."""
    kafka = jvm.org.apache.kafka.common.message.BrokerRegistrationRequestData
    ours = (br.min_supported_version(), br.max_supported_version())
    assert ours == (kafka.LOWEST_SUPPORTED_VERSION, kafka.HIGHEST_SUPPORTED_VERSION)


def ask(address, frame):
    """Send a message and return the answer to it, both without their sizes."""
    host, port = address.split(",")[0].rsplit(":", 1)
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(len(frame).to_bytes(4, "big") + frame)
        stream = connection.makefile("rb")
        return stream.read(int.from_bytes(stream.read(4), "big"))


def register(cluster, version, cluster_id):
    """Register a broker with all the features that the controller knows."""
    address = cluster.controller_bootstrap
    versions = message("ApiVersions")
    software = {"client_software_name": "test", "client_software_version": "1"}
    answer = ask(address, versions.serialize_request(software, 4))
    known = versions.deserialize_response(answer, 4)["supported_features"]
    assert "metadata.version" in {each["name"] for each in known}
    content = {
        "broker_id": 100 + version,
        "cluster_id": cluster_id,
        "incarnation_id": uuid4(),
        "listeners": [{"name": "PLAINTEXT", "host": "localhost", "port": 65535}],
        "features": [
            {
                "name": each["name"],
                "min_supported_version": each["min_version"],
                "max_supported_version": each["max_version"],
            }
            for each in known
        ],
        "log_dirs": [uuid4()],
    }
    about = {"correlation_id": 40 + version}
    sent = br.serialize_request(content, version, request_header=about)
    answer = br.deserialize_response(ask(address, sent), version)
    assert answer["header"] == about
    return answer["error_code"], answer["broker_epoch"]


@pytest.mark.java
def test_controller_answers_every_version():
    """Refused with another cluster's id; with its own, registered from version 2 on.

    A cluster of its own: brokers that register and never live stay behind.
    """
    with KafkaCluster() as cluster:
        other = format_uuid(uuid4())
        for version in VERSIONS:
            # INCONSISTENT_CLUSTER_ID
            assert register(cluster, version, other) == (104, -1)
        for version in (0, 1):
            # INVALID_REGISTRATION: these cannot say which log directories there are
            assert register(cluster, version, cluster.cluster_id) == (119, -1)
        for version in (2, 3, 4):
            code, epoch = register(cluster, version, cluster.cluster_id)
            assert code == 0
            assert epoch > 0
