import gzip
import io
import random
import tarfile
import zipfile

import pytest

from node.artifacts.sniff import plainly_other


def zipped(*names: str) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    return held.getvalue()


def tarred() -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a"), io.BytesIO(b""))
    return held.getvalue()


PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00"
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj"
ELF = b"\x7fELF\x02\x01\x01" + bytes(9)
EXE = b"MZ\x90\x00\x03\x00\x00\x00\x04" + bytes(50)
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500)
HTML = b"<!DOCTYPE html>\n<html><script>alert(1)</script></html>"
RANDOM = random.Random(1).randbytes(4096)
PROSE = "A naïve café sentence, in plain words.\n".encode()

TRUE = [
    (PNG, "image/png"),
    (PNG, "IMAGE/PNG; foo=bar"),
    (JPEG, "image/jpeg"),
    (b"GIF89a\x01\x00\x01\x00\x80", "image/gif"),
    (b"RIFF\x10\x00\x00\x00WEBPVP8 ", "image/webp"),
    (b"RIFF\x10\x00\x00\x00WAVEfmt ", "audio/wav"),
    (b"\x00\x00\x00\x18ftypmp42\x00", "video/mp4"),
    (b"\x00\x00\x00\x18ftypavif\x00", "image/avif"),
    (b"\x00\x00\x00\x18stypmsdh\x00", "video/mp4"),
    (b"\x00\x00\x00\x68moof\x00\x00\x00\x10mfhd", "audio/mp4"),
    (b"\x00\x00\x00\x2csidx\x00\x00\x00\x00", "video/mp4"),
    (b"\x00\x00\x00\x08free\x00\x00\x10\x00mdat", "video/quicktime"),
    (b"\x1a\x45\xdf\xa3\x01\x00\x00\x00\x00\x00\x00\x1fB\x86\x81\x01", "video/webm"),
    (b"OggS\x00\x02" + bytes(20), "audio/ogg"),
    (b"ID3\x04\x00\x00\x00", "audio/mpeg"),
    (b"\xff\xfb\x90\x64\x00", "audio/mpeg"),
    (bytes(2000), "audio/mpeg"),
    (b"ID3\x04\x00\x00\x00", "audio/mp3"),
    (b"ID3\x04\x00\x00\x00", "audio/aac"),
    (b"MThd\x00\x00\x00\x06\x00\x01", "audio/mid"),
    (b"https://music.example/a.mp3\n", "audio/x-mpegurl"),
    (b"\xef\xbb\xbf#EXTM3U\n", "audio/x-mpegurl"),
    (b'<asx version="3.0"><entry/></asx>', "video/x-ms-asf"),
    (b"/* Made by hand */\n#define width 8\n", "image/x-xbitmap"),
    (b"II*\x00\x08\x00\x00\x00", "image/x-nikon-nef"),
    (b"P3\n2 2\n255\n", "image/x-portable-pixmap"),
    (PDF, "application/pdf"),
    (b"\x00\x00stray bytes before\n" + PDF, "application/pdf"),
    (zipped("a.txt"), "application/zip"),
    (zipped("word/document.xml"), "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    (zipped("mimetype"), "application/epub+zip"),
    (zipped("META-INF/MANIFEST.MF"), "application/java-archive"),
    (zipped("content.xml"), "application/vnd.oasis.opendocument.spreadsheet"),
    (zipped("mimetype"), "application/vnd.oasis.opendocument.graphics"),
    (zipped("Index.zip"), "application/x-iwork-keynote-sffkey"),
    (zipped("mimetype"), "image/openraster"),
    (OLE, "application/vnd.ms-excel"),
    (OLE, "application/vnd.ms-powerpoint"),
    (OLE, "application/msword"),
    # an encrypted document
    (OLE, "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    (gzip.compress(b"BLENDER-v279", mtime=0), "application/x-blender"),
    (b"\x00\x01\x00\x00\x00\x0f\x00\x80", "application/x-font-ttf"),
    (b"\x00\x01\x00\x00\x00\x0f\x00\x80", "application/x-font-otf"),
    (b"\x1a\x45\xdf\xa3\x01\x00\x00\x00\x00\x00\x00\x1fB\x86\x81\x01", "audio/x-matroska"),
    (b"\x00\x00\x00\x1cftypM4A \x00", "audio/x-m4b"),
    (b"\x00\x00\x00\x18ftypmp42\x00", "video/3gpp2"),
    (gzip.compress(b"abc", mtime=0), "application/gzip"),
    (gzip.compress(b"abc", mtime=0), "application/tlsrpt+gzip"),
    (tarred(), "application/x-tar"),
    (b"\x28\xb5\x2f\xfd\x04\x00", "application/zstd"),
    (b"PAR1\x15\x04\x15\x00", "application/vnd.apache.parquet"),
    (b"SQLite format 3\x00\x10\x00", "application/vnd.sqlite3"),
    (b"\x00asm\x01\x00\x00\x00", "application/wasm"),
    (b'{"a": 1}', "application/json"),
    (b"[1, 2]\n", "application/json; charset=utf-8"),
    (b"\xef\xbb\xbf \n-1.5", "application/json"),
    (b'"text"', "application/problem+json"),
    (b'{"a":1}\n{"a":2}\n', "application/x-ndjson"),
    (b'\x1e{"a":1}\n\x1e{"a":2}\n', "application/json-seq"),
    (b"id\x1fname\x1e1\x1fAda\x1e", "text/plain"),
    (b"<?xml version='1.0'?><a/>", "application/xml"),
    (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"),
    (HTML, "text/html"),
    (HTML, "text/plain"),
    (PROSE, "text/plain"),
    (PROSE, "text/markdown"),
    ("Ünïcödé".encode("latin-1"), "text/plain"),
    ("wide letters".encode("utf-16"), "text/plain"),
    ("wide letters".encode("utf-16-le"), "text/plain; charset=utf-16le"),
    ("wide letters".encode("utf-32-le"), "text/plain; charset=utf-32le"),
    ('{"wide": 1}'.encode("utf-16"), "application/json"),
    (b"\x1b[31mred\x1b[0m\n", "text/plain"),
    (b"id,name\n1,Ada\n", "text/csv"),
    (b"BMW makes cars", "text/plain"),
    (b"MZ is the mark of an executable", "text/plain"),
    (b"The mdat box of a film", "text/plain"),
    (b"GIF89a is a format of 1989", "text/plain"),
    (b"PAR1 is how Parquet starts", "text/csv"),
    (ELF, "application/octet-stream"),
    (HTML, "application/octet-stream"),
    (RANDOM, "application/octet-stream"),
    (PDF, "application/x-binary"),
    (RANDOM, "application/x-unheard-of"),
    (PROSE, "application/vnd.unheard-of"),
    (b"id;name\n1;Ada\n", "application/vnd.ms-excel"),
    (RANDOM, "image/x-unheard-of"),
    (RANDOM, "image/vnd.adobe.photoshop"),
    (ELF, "application/x-sharedlib"),
    (b"\xca\xfe\xba\xbe\x00\x00\x00\x34", "application/java"),
    (b"II*\x00" + bytes(124) + b"DICM", "application/dicom"),
    (b"8BPS\x00\x01" + bytes(20), "image/vnd.adobe.photoshop"),
]

FALSE = [
    (HTML, "image/png", "text/html"),
    (PROSE, "image/png", "text/plain"),
    (JPEG, "image/png", "image/jpeg"),
    (RANDOM, "image/png", "application/octet-stream"),
    (ELF, "image/jpeg", "application/x-executable"),
    (EXE, "application/pdf", "application/x-executable"),
    (PROSE, "application/pdf", "text/plain"),
    (PDF, "text/plain", "application/pdf"),
    (b"%PDF-1.4 only text", "text/csv", "application/pdf"),
    (PNG, "application/json", "image/png"),
    (PROSE, "application/json", "text/plain"),
    (HTML, "application/json", "text/html"),
    (HTML, "text/csv", "text/html"),
    (PROSE, "application/xml", "text/plain"),
    (b'{"a": 1}', "image/svg+xml", "text/plain"),
    (HTML, "image/svg+xml", "text/html"),
    (HTML, "audio/x-mpegurl", "text/html"),
    (RANDOM, "text/plain", "application/octet-stream"),
    (RANDOM.replace(b"\0", b""), "text/plain", "application/octet-stream"),
    (PROSE * 9 + b"\0", "text/plain", "application/octet-stream"),
    (ELF, "text/x-python", "application/x-executable"),
    (EXE, "text/plain", "application/x-executable"),
    (PNG, "text/plain; charset=utf-16", "image/png"),
    (gzip.compress(b"abc", mtime=0), "text/csv", "application/gzip"),
    (PROSE, "application/zip", "text/plain"),
    (gzip.compress(b"abc", mtime=0), "application/zip", "application/gzip"),
    (PNG, "application/epub+zip", "image/png"),
    (zipped("a"), "application/tlsrpt+gzip", "application/zip"),
    (PROSE, "audio/mpeg", "text/plain"),
    (PNG, "audio/mpeg", "image/png"),
    (PROSE, "video/mp4", "text/plain"),
    (zipped("a"), "image/x-unheard-of", "application/zip"),
    (OLE, "audio/x-caf", "application/x-ole-storage"),
    (OLE, "application/vnd.oasis.opendocument.text+zip", "application/x-ole-storage"),
    (ELF, "application/vnd.ms-excel", "application/x-executable"),
    (PNG, "application/x-rpm", "image/png"),
    (PROSE, "image/vnd.adobe.photoshop", "text/plain"),
    (ELF, "image/vnd.adobe.photoshop", "application/x-executable"),
    (PNG, "image/vnd.adobe.photoshop", "image/png"),
    (PROSE, "font/woff2", "text/plain"),
]


@pytest.mark.parametrize(("head", "media_type"), TRUE)
def test_content_that_can_be_of_its_type_is_believed(head: bytes, media_type: str) -> None:
    assert plainly_other(head, media_type) is None


@pytest.mark.parametrize(("head", "media_type", "other"), FALSE)
def test_content_that_is_plainly_of_another_type_is_named(head: bytes, media_type: str, other: str) -> None:
    assert plainly_other(head, media_type) == other


def test_a_letter_cut_by_the_end_of_the_head_does_not_make_a_text_binary() -> None:
    assert plainly_other(("é" * 100).encode()[:-1], "text/plain") is None
