"""CSV files as a pipeline reads them: open quotes, headers that differ, folders."""

from __future__ import annotations

import bz2
import gzip
import re
from dataclasses import replace

import pytest

from kafkaguard_adapters.spark.pipeline.csv_lines import (
    are_read_by_line,
    find_other_header,
    make_open_quote_pattern,
)
from kafkaguard_adapters.spark.pipeline.input_files import (
    describe_empty_files,
    describe_wrong_compression,
    files_at,
)
from kafkaguard_adapters.spark.pipeline.malformed import describe_all_malformed
from kafkaguard_adapters.spark.pipeline.model import Pipeline, Source
from kafkaguard_adapters.spark.pipeline.places import MistakeError
from kafkaguard_adapters.spark.pipeline.rows import LINE, read
from kafkaguard_adapters.spark.pipeline.run import first_line
from kafkaguard_adapters.spark.report import total

ESCAPED_BY_QUOTES = {"escape": '"'}


@pytest.mark.parametrize(
    ("line", "options", "is_open"),
    [
        ('1,a,"x', {}, True),
        ('"', {}, True),
        ('1,"a,b",c', {}, False),
        ('1,"a,b', {}, True),
        ('1,a,""', {}, False),
        ('1,5" pipe,x', {}, False),
        ('1,a,5"', {}, False),
        ('1,"a ""b"" c",x', {}, False),
        ('1,"a "b" c",x', {}, False),
        (r'1,"say \"hi\"",x', {}, False),
        (r'1,"say \"hi\"', {}, True),
        (r'1,"C:\dir' + "\\", {}, True),
        ('1,"""x"""', ESCAPED_BY_QUOTES, False),
        ('1,"a""', ESCAPED_BY_QUOTES, True),
        ('1;"a', {"sep": ";"}, True),
        ('1;"a', {}, False),
        ("1\t'a", {"delimiter": r"\t", "quote": "'"}, True),
        ('1, "a', {}, False),
        ('1, "a', {"ignoreleadingwhitespace": "true"}, True),
        ('1]"a', {"sep": "]"}, True),
        ('1^"a', {"sep": "^"}, True),
        ("", {}, False),
    ],
)
def test_line_that_ends_inside_quotes_is_found(line, options, is_open):
    """A quote counts at the start of a field, and not where it is escaped."""
    assert is_open == bool(re.search(make_open_quote_pattern(options), line))


def test_long_line_needs_no_long_search():
    """No part of the pattern is tried twice."""
    line = ",".join(['"a\\"b"'] * 20_000) + ',"' + 'x""' * 20_000 + 'y"z'
    assert not re.search(make_open_quote_pattern({}), line)


@pytest.mark.parametrize(
    ("options", "by_line"),
    [
        ({}, True),
        ({"multiline": "false"}, True),
        ({"multiline": "TRUE"}, False),
        ({"quote": ""}, False),
    ],
)
def test_line_break_ends_a_record_without_multi_line(options, by_line):
    """Without quotes a line break always ends it, as Spark reads it."""
    assert by_line == are_read_by_line(options)


@pytest.mark.parametrize(
    ("text", "file"),
    [
        (
            "x\nCSV header does not conform to the schema.\n Header: a\nCSV file: file:/b",
            "file:/b",
        ),
        (
            "Number of column in CSV header is not equal to\nCSV file: s3a://b/c.csv\n",
            "s3a://b/c.csv",
        ),
        ("CSV file: file:/b", None),
    ],
)
def test_file_with_another_header_is_found_in_the_text_of_spark(text, file):
    """A stream meets such a file when it runs."""
    assert file == find_other_header(text)


def rows(spark, folder, *, columns=None, stream=None, **options):
    """Read the CSV files of a folder, as a pipeline does."""
    source = {"format": "csv", "path": str(folder), "options": options}
    if columns:
        source["columns"] = columns
    sink = {"bootstrap_servers": "localhost:1", "topic": "t"}
    parts = {"source": source, "select": {"value": "*"}, "sink": sink}
    if stream:
        parts["stream"] = {"checkpoint": stream}
    return read(spark, Pipeline.model_validate(parts), with_lines=True).frame


def found(frame):
    """Return the values of rows, and the lines that are malformed."""
    shown = frame.drop("_kafkaguard_file").collect()
    good = [tuple(row)[:-1] for row in shown if row[LINE] is None]
    return sorted(good, key=str), sorted(row[LINE] for row in shown if row[LINE])


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("columns", [None, "id string, name string, note string"])
def test_line_that_ends_inside_quotes_is_malformed(spark, tmp_path, columns):
    """Also if the number of its fields is right; with multiLine it is a record."""
    text = 'id,name,note\n1,a,"x\ny,b,z"\n2,c,w\n3,d,"e"\n'
    (tmp_path / "a.csv").write_text(text)
    good, bad = found(rows(spark, tmp_path, columns=columns, header=True))
    assert good == [("2", "c", "w"), ("3", "d", "e"), ("y", "b", 'z"')]
    assert bad == ['1,a,"x']
    good, bad = found(
        rows(spark, tmp_path, columns=columns, header=True, multiLine=True)
    )
    assert (len(good), bad) == (3, [])


@pytest.mark.xdist_group("spark")
def test_lines_are_read_as_spark_reads_them(spark, tmp_path):
    """Types, folders, comments, blank lines, an own separator, compressed files."""
    for day, text in (
        ("01", "id;at\n1;2026-01-02\n\n# no record\n'2;3';x\n"),
        ("02", "\ufeffid;at\r\n4;2026-01-03\r\n5;2026-01-04;6\r\n"),
    ):
        (tmp_path / f"day={day}").mkdir()
        (tmp_path / f"day={day}" / "a.csv").write_bytes(text.encode())
    options = {"header": True, "sep": ";", "comment": "#", "quote": "'"}
    whole = rows(spark, tmp_path, columns="id string, at date, day string", **options)
    assert whole.columns[:3] == ["id", "at", "day"]
    good, bad = found(whole.selectExpr("id", "cast(at as string)", "day", LINE))
    assert good == [("1", "2026-01-02", "01"), ("4", "2026-01-03", "02")]
    assert bad == ["'2;3';x", "5;2026-01-04;6"]


@pytest.fixture
def two(tmp_path):
    """Two files of which the second has its columns in another order."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,name\n1,a\n")
    (tmp_path / "in" / "b.csv").write_text("name,id\nb,2\n")
    return tmp_path / "in"


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("columns", [None, "id string, name string"])
@pytest.mark.parametrize("multi_line", [False, True])
def test_file_with_another_header_is_refused(spark, two, columns, multi_line):
    """By its name; Spark would write the values of one column into another."""
    options = {"header": True, "multiLine": multi_line}
    with pytest.raises(MistakeError) as caught:
        rows(spark, two, columns=columns, **options)
    assert "b.csv has name, id" in caught.value.problems[0].message
    (two / "b.csv").write_text('"id",name\n2,b\n')
    good, _ = found(rows(spark, two, columns=columns, **options))
    assert good == [("1", "a"), ("2", "b")]


@pytest.mark.xdist_group("spark")
def test_file_that_comes_later_with_another_header_stops_a_stream(spark, two, tmp_path):
    """Spark compares the header of each file, and its text has the file."""
    later = (two / "b.csv").rename(tmp_path / "b.csv")
    options = {"header": True, "columns": "id string, name string"}
    frame = rows(spark, two, stream=str(tmp_path / "c"), **options)
    later.rename(two / "b.csv")
    query = frame.writeStream.format("noop").trigger(availableNow=True)
    query = query.option("checkpointLocation", str(tmp_path / "c")).start()
    with pytest.raises(Exception) as caught:
        query.awaitTermination(60)
    assert "/in/b.csv has another header" in first_line(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", gzip.compress(b"k,v\n1,2\n", mtime=0), "its name ends with .gz"),
        ("a.csv", bz2.compress(b"k,v\n1,2\n"), "its name ends with .bz2"),
        ("a.csv.gz", gzip.compress(b"k,v\n1,2\n", mtime=0), None),
        ("a.csv", b"PK\x03\x04\x14\x00", "unpack it"),
        ("a.csv", b"BZh,v\n1,2\n", None),
        ("_a.csv", gzip.compress(b"", mtime=0), None),
        ("d=1/a.csv", gzip.compress(b"", mtime=0), "d=1/a.csv is compressed"),
    ],
)
def test_compressed_file_without_its_ending_is_refused(tmp_path, name, content, said):
    """Spark knows by the name how to read a file."""
    file = tmp_path / "in" / name
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    found = describe_wrong_compression(files_at(str(tmp_path / "in")))
    assert said is None if found is None else said in found


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        ([b""], "a0.csv is empty"),
        ([b"", b""], "all 2 files are empty"),
        ([b"", b"k"], None),
        ([], None),
    ],
)
def test_files_that_are_all_empty_are_told(tmp_path, contents, said):
    """A folder without files is Spark's to tell."""
    for number, content in enumerate(contents):
        (tmp_path / f"a{number}.csv").write_bytes(content)
    found = describe_empty_files(files_at(str(tmp_path)))
    assert said is None if found is None else said in found


def report(read, **counts):
    """Make a report with malformed lines."""
    return replace(total("t", None, []), read=read, **counts)


@pytest.mark.parametrize(
    ("source", "made", "said"),
    [
        (
            {"format": "csv"},
            {"dead_lettered": {"MALFORMED": 3}},
            "here ',') and header",
        ),
        (
            {"format": "csv", "options": {"SEP": ";", "header": True}},
            {"dropped": {"MALFORMED": 3}},
            "here ';') and header (whether the first line has the names of the column",
        ),
        ({"format": "json"}, {"dropped": {"MALFORMED": 3}}, "and source.options"),
        ({"format": "csv"}, {"dead_lettered": {"MALFORMED": 2, "NULL_KEY": 1}}, None),
        ({"format": "csv"}, {}, None),
    ],
)
def test_warning_names_the_options_if_all_lines_are_malformed(source, made, said):
    """A wrong separator, or a file without a header, spoils each line."""
    found = describe_all_malformed(report(3, **made), Source.model_validate(source))
    assert said is None if found is None else said in found
