"""Files of every kind that documents are read from, and an embedder that knows a few synonyms."""

from __future__ import annotations

import io

import pytest

numpy = pytest.importorskip("numpy")

MEANING = {
    "pagar": 0,
    "pix": 0,
    "dinheiro": 0,
    "trocar": 1,
    "devolver": 1,
    "troca": 1,
    "frete": 2,
    "entrega": 2,
    "loja": 3,
}


class Meaning:
    """Vectors that say which of four meanings the words of a text have; counts what it was asked."""

    name, size = "meaning", 8

    def __init__(self, name="meaning", size=8):
        self.name, self.size, self.texts = name, size, []

    def passages(self, texts):
        """A number for each meaning, and one that all texts share."""
        self.texts += texts
        out = numpy.full((len(texts), self.size), 0.1, numpy.float32)
        for row, text in zip(out, texts, strict=True):
            for word in text.lower().replace("?", " ").replace(".", " ").split():
                if word in MEANING:
                    row[MEANING[word]] += 1
        return out / numpy.linalg.norm(out, axis=1, keepdims=True)

    queries = passages


@pytest.fixture
def meaning():
    """An embedder of four meanings."""
    return Meaning()


def pdf(*pages, title="", password=""):
    """A PDF file with a page for each text; "" is a page without one."""
    from pypdf import PdfReader, PdfWriter

    objects = ["<</Type/Catalog/Pages 2 0 R>>"]
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(len(pages)))
    objects.append(f"<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>")
    objects.append("<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>")
    for i, text in enumerate(pages):
        drawn = "".join(f"({line}) Tj T* " for line in text.split("\n")) if text else ""
        stream = f"BT /F1 12 Tf 72 720 Td 14 TL {drawn}ET"
        resources = "/Resources<</Font<</F1 3 0 R>>>>"
        objects.append(f"<</Type/Page/Parent 2 0 R{resources}/MediaBox[0 0 612 792]/Contents {5 + 2 * i} 0 R>>")
        objects.append(f"<</Length {len(stream.encode('cp1252'))}>>stream\n{stream}\nendstream")
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj{body}endobj\n".encode("cp1252")
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    out += "".join(f"{place:010d} 00000 n \n" for place in places).encode()
    out += f"trailer<</Size {len(objects) + 1}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF".encode()
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(out)))
    if title:
        writer.add_metadata({"/Title": title})
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def docx(build):
    """A Word file; `build` fills the document."""
    import docx as word

    document = word.Document()
    build(document)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()
