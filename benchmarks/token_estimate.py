"""The error of the token estimate against exact o200k counts, by language and kind of text; and the fit of its weights.

    python benchmarks/token_estimate.py                      the table (texts of 40 characters or more)
    python benchmarks/token_estimate.py --half 1             the same over the half that the fit has not seen
    python benchmarks/token_estimate.py --fit                fit on half 0, print the tables for src/novelo/_estimate.py

The data folder holds JSONL files (gzip) of conversations and documents; what is missing there is left out. Ids, rows
and code are generated, so that a table can be had without it. Exit status 1 when a demand is not met: of each kind 90 %
within 20 % (85 % in Chinese and Japanese), 97 % of all, and no thread of 100 tokens or more below 0.8 of the truth.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import json
import random
import statistics
import sys
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from novelo import _estimate
from novelo.tokens import counter, estimate_text

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
SHORTEST = 40  # characters
JUDGED = ("chat", "documents", "json", "ids")  # the kinds that the demands are made of; the rest is shown
WEIGHT = {
    "chat en": 2.5,
    "chat pt": 1.2,
    "documents en": 1.5,
    "documents pt": 1.2,
    "json": 1.5,
    "ids": 0.4,
    "languages": 1.0,
}
# What is aimed at, in truths: a little high, but not where the spread is wide anyway.
AIM, AIM_ELSE = {"chat en": 1.045, "documents en": 1.035, "documents pt": 1.01, "chat zh": 1.0, "chat ja": 1.0}, 1.025
UNDER = 1.3  # how much more a low estimate hurts than a high one
# Where the sign or size of a weight is known beforehand; all others are not negative. Patterns that merge take back.
BOUNDS: dict[bytes, tuple[float, float]] = {
    **dict.fromkeys((b"aaaaaa", b"aaaaaaaaaa", b"AAA", b" A", b"..", b"...", b" .", b"a'a"), (-9.0, 0.0)),
    **dict.fromkeys(
        (b"00", b"000", b".0", b"cc", b"vcv", b"vv", b"--------", b"HH", b"HHHH", b"\xe3\x81", b"\xe4"), (-9.0, 0.0)
    ),
    **dict.fromkeys((b"th", b"ing ", b"ed ", b"y "), (-0.6, 0.0)),
    **dict.fromkeys(map(str.encode, ("你", "可以", "ます", "して", "お願い")), (-2.0, 0.0)),
    "的".encode(): (-0.7, 0.0),
    "ありがとうございます".encode(): (-5.0, 0.0),
    b"\n": (0.25, 9.0),
    b".\n": (-1.0, 0.0),
    **dict.fromkeys((b"\n. A", b"\n. a"), (0.5, 2.0)),  # a list of rare terms is the worst that was found
    b"a" * 20: (3.0, 6.0),  # nor are such runs in the data
    b"m": (1.3, 2.0),  # an accent of its own: not in the data, measured by hand
    b"e": (1.0, 2.5),
    **dict.fromkeys((b"\xc4", b"\xc5"), (0.4, 1.6)),
    **dict.fromkeys((b"\xc9", b"\xcb"), (0.4, 2.0)),
    b"\xd6": (0.8, 1.2),
    b"\xe1": (0.2, 1.0),
    **dict.fromkeys((b"\xe1\xb8", b"\xe1\xb9"), (0.5, 2.0)),
}
# Universal Declaration of Human Rights, Article 1 (United Nations): the only text there is in every language.
ARTICLE_1 = """\
Todos los seres humanos nacen libres e iguales en dignidad y derechos y, dotados como están de razón y conciencia, deben comportarse fraternalmente los unos con los otros.
Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de raison et de conscience et doivent agir les uns envers les autres dans un esprit de fraternité.
Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und Gewissen begabt und sollen einander im Geiste der Brüderlichkeit begegnen.
Tutti gli esseri umani nascono liberi ed eguali in dignità e diritti. Essi sono dotati di ragione e di coscienza e devono agire gli uni verso gli altri in spirito di fratellanza.
Todos os seres humanos nascem livres e iguais em dignidade e em direitos. Dotados de razão e de consciência, devem agir uns para com os outros em espírito de fraternidade.
Alle mensen worden vrij en gelijk in waardigheid en rechten geboren. Zij zijn begiftigd met verstand en geweten, en behoren zich jegens elkander in een geest van broederschap te gedragen.
Alla människor är födda fria och lika i värde och rättigheter. De är utrustade med förnuft och samvete och bör handla gentemot varandra i en anda av broderskap.
Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. Są oni obdarzeni rozumem i sumieniem i powinni postępować wobec innych w duchu braterstwa.
Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a práv. Jsou nadáni rozumem a svědomím a mají spolu jednat v duchu bratrství.
Minden emberi lény szabadon születik és egyenlő méltósága és joga van. Az emberek, ésszel és lelkiismerettel bírván, egymással szemben testvéri szellemben kell hogy viseltessenek.
Kaikki ihmiset syntyvät vapaina ja tasavertaisina arvoltaan ja oikeuksiltaan. Heille on annettu järki ja omatunto, ja heidän on toimittava toisiaan kohtaan veljeyden hengessä.
Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. Akıl ve vicdana sahiptirler ve birbirlerine karşı kardeşlik zihniyeti ile hareket etmelidirler.
Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền lợi. Mọi con người đều được tạo hóa ban cho lý trí và lương tâm và cần phải đối xử với nhau trong tình anh em.
Semua orang dilahirkan merdeka dan mempunyai martabat dan hak-hak yang sama. Mereka dikaruniai akal dan hati nurani dan hendaknya bergaul satu sama lain dalam semangat persaudaraan.
Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и совестью и должны поступать в отношении друг друга в духе братства.
Всі люди народжуються вільними і рівними у своїй гідності та правах. Вони наділені розумом і совістю і повинні діяти у відношенні один до одного в дусі братерства.
Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα. Είναι προικισμένοι με λογική και συνείδηση, και οφείλουν να συμπεριφέρονται μεταξύ τους με πνεύμα αδελφοσύνης.
כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. כולם חוננו בתבונה ובמצפון, לפיכך חובה עליהם לנהוג איש ברעהו ברוח של אחווה.
يولد جميع الناس أحرارا متساوين في الكرامة والحقوق. وقد وهبوا عقلا وضميرا وعليهم أن يعامل بعضهم بعضا بروح الإخاء.
تمام افراد بشر آزاد به دنیا می‌آیند و از لحاظ حیثیت و حقوق با هم برابرند. همه دارای عقل و وجدان هستند و باید نسبت به یکدیگر با روح برادری رفتار کنند.
सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। उन्हें बुद्धि और अन्तरात्मा की देन प्राप्त है और परस्पर उन्हें भाईचारे के भाव से बर्ताव करना चाहिए।
সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে। তাঁদের বিবেক এবং বুদ্ধি আছে; সুতরাং সকলেরই একে অপরের প্রতি ভ্রাতৃত্বসুলভ মনোভাব নিয়ে আচরণ করা উচিত।
மனிதப் பிறிவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்; அவர்கள் மதிப்பிலும், உரிமைகளிலும் சமமானவர்கள், அவர்கள் நியாயத்தையும் மனச்சாட்சியையும் இயற்பண்பாகப் பெற்றவர்கள்.
มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ต่างมีเหตุผลและมโนธรรม และควรปฏิบัติต่อกันด้วยเจตนารมณ์แห่งภราดรภาพ
모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 이성과 양심을 부여받았으며 서로 형제애의 정신으로 행동하여야 한다.
すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。人間は、理性と良心とを授けられており、互いに同胞の精神をもって行動しなければならない。
人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。
人人生而自由，在尊嚴和權利上一律平等。他們賦有理性和良心，並應以兄弟關係的精神互相對待。
ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით. მათ მინიჭებული აქვთ გონება და სინდისი და ერთმანეთის მიმართ უნდა იქცეოდნენ ძმობის სულისკვეთებით.
Բոլոր մարդիկ ծնվում են ազատ ու հավասար իրենց արժանապատվությամբ ու իրավունքներով։ Նրանք ունեն բանականություն ու խիղճ և միմյանց պետք է եղբայրաբար վերաբերվեն։
"""  # noqa: E501


@dataclass(frozen=True)
class Sample:
    """A text, its kind, the thread it stands in, and the half its record belongs to (0 is fitted on)."""

    kind: str
    thread: str
    text: str
    truth: int

    @property
    def half(self) -> int:
        return hashlib.sha256(self.thread.encode()).digest()[0] % 2


def records(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each record of each file that has messages or a document."""
    for path in sorted(folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            yield from ((path.name.split(".")[0], json.loads(line)) for line in lines)


def texts_of(name: str, record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The texts of a record with their kinds: JSON from and to tools, what people and models say, documents."""
    lang = record.get("lang", "en")
    if name == "documents":
        yield f"documents {lang}", record["text"]
        yield from ((f"documents {lang}", q["q"]) for q in record.get("questions", ()))
    for message in record.get("messages", ()):
        body = message.get("content") or ""
        if isinstance(body, str):
            yield ("json" if message["role"] == "tool" and body.lstrip()[:1] in ("{", "[") else f"chat {lang}"), body
        for call in message.get("tool_calls") or ():
            yield "json", call["function"]["arguments"]


def generated(rng: random.Random) -> Iterator[tuple[str, str, str]]:
    """Kind, thread and text of what no record holds enough of: ids, base64, rows of numbers, code."""

    def event() -> str:
        day = f"2026-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}T{rng.randrange(24):02d}:15Z"
        return f"order {rng.randrange(10**9)} call_{rng.getrandbits(96):024x} at {day}"

    for n in range(600):
        rows = "; ".join(event() for _ in range(rng.randrange(1, 5)))
        start, sha = rng.choice(["Pedido: ", "Status of ", "查询: "]), f"{rng.getrandbits(160):040x}"
        yield "ids", f"ids {n // 10}", start + rows + json.dumps({"sha": sha})
    for n in range(150):
        yield "base64", f"base64 {n}", base64.b64encode(rng.randbytes(rng.randrange(40, 400))).decode()
        ids = (uuid.UUID(int=rng.getrandbits(128)) for _ in range(rng.randrange(2, 8)))
        yield "uuid", f"uuid {n}", "; ".join(map(str, ids))
        rows = (f"{rng.randrange(10**6)},{rng.random() * 1000:.2f},{rng.choice(['open', 'Paid'])}" for _ in range(9))
        yield "csv", f"csv {n}", "\n".join(rows)
    library = sorted(Path(statistics.__file__).parent.glob("*.py"))
    library = [path for path in library if path.name != "this.py"]  # its text is enciphered
    for path in rng.sample(library, min(120, len(library))):
        code = path.read_text(encoding="utf-8", errors="replace")
        for _ in range(2):
            at = rng.randrange(max(1, len(code) - 2000))
            yield "code", f"code {path.name}", code[at : at + rng.randrange(200, 2000)]
    for n, line in enumerate(ARTICLE_1.splitlines()):
        yield "languages", f"languages {n}", line


def samples(folder: Path) -> list[Sample]:
    """All texts with their exact counts."""
    exact = counter("o200k")
    found = [
        (kind, f"{record.get('source')}:{record['id']}", text)
        for name, record in records(folder)
        if name != "wire_requests"
        for kind, text in texts_of(name, record)
    ]
    found += generated(random.Random(20))
    return [Sample(kind, thread, text, max(1, exact(text))) for kind, thread, text in found if text]


# ------------------------------------------------------------------------------------------------ the table
def row(group: list[Sample]) -> dict[str, Any]:
    """The figures of one kind: errors over its texts, the lowest ratio over its threads of 100 tokens or more."""
    pairs = [(s.thread, estimate_text(s.text), s.truth) for s in group]
    errors = sorted(abs(e / t - 1) for _, e, t in pairs)
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for thread, e, t in pairs:
        sums[thread][0] += e
        sums[thread][1] += t
    return {
        "texts": len(pairs),
        "median": round(statistics.median(errors), 3),
        "p95": round(errors[int(0.95 * len(errors))], 3),
        "within_20": round(sum(e <= 0.2 for e in errors) / len(errors), 4),
        "mean_ratio": round(sum(e for _, e, _ in pairs) / sum(t for _, _, t in pairs), 3),
        "lowest_thread": round(min((e / t for e, t in sums.values() if t >= 100), default=1.0), 3),
    }


def table(found: list[Sample]) -> dict[str, dict[str, Any]]:
    """The figures by kind; `all` are the judged kinds together."""
    found = [s for s in found if len(s.text) >= SHORTEST]
    groups = {kind: [s for s in found if s.kind == kind] for kind in sorted({s.kind for s in found})}
    groups["all"] = [s for s in found if s.kind.startswith(JUDGED)]
    return {kind: row(group) for kind, group in groups.items() if group}


def met(kind: str, figures: dict[str, Any]) -> bool:
    """Whether a kind meets its demand; kinds that are only shown always do."""
    least = 0.97 if kind == "all" else 0.85 if kind.endswith(("zh", "ja")) else 0.9
    judged = kind == "all" or kind.startswith(JUDGED)
    return not judged or (figures["within_20"] >= least and figures["lowest_thread"] >= 0.8)


# ------------------------------------------------------------------------------------------------ the fit
def fit(found: list[Sample]) -> list[float]:
    """Weights with the least sum of absolute relative errors: least squares, each time weighted anew by the errors."""
    import numpy as np

    truth = np.array([s.truth * AIM.get(s.kind, AIM_ELSE) for s in found], float)
    relative = np.array([_estimate.features(s.text) for s in found], float) / truth[:, None]
    sizes = Counter(s.kind for s in found)
    share = np.array([WEIGHT.get(s.kind, 1.0 if s.kind.startswith("chat") else 0.2) / sizes[s.kind] for s in found])
    share *= np.where([len(s.text) >= SHORTEST for s in found], 1.0, 0.15)
    patterns = [p for patterns in _estimate.TABLES.values() for p in patterns]
    bounds = [BOUNDS.get(p, (0.0, 9.0)) for p in patterns]
    weights, now = np.zeros(len(patterns)), share.copy()
    for _ in range(15):
        gram = (relative * now[:, None]).T @ relative
        gram += np.eye(len(gram)) * 1e-6 * np.trace(gram) / len(gram)
        weights = bounded(gram, (relative * now[:, None]).sum(0), bounds, weights)
        error = relative @ weights - 1
        now = share / np.maximum(np.abs(error), 0.06) * np.where(error < 0, UNDER, 1.0)
    return [round(float(w), 3) for w in weights]


def bounded(gram: Any, right: Any, bounds: list[tuple[float, float]], start: Any) -> Any:
    """Least squares within bounds by coordinate descent: min w'Gw - 2 right'w."""
    weights = start.copy()
    rest = right - gram @ weights
    for _ in range(2000):
        moved = 0.0
        for j, (low, high) in enumerate(bounds):
            step = min(max(weights[j] + rest[j] / gram[j, j], low), high) - weights[j]
            if step:
                rest -= gram[:, j] * step
                weights[j] += step
                moved = max(moved, abs(step))
        if moved < 1e-4:
            break
    return weights


def put(weights: list[float]) -> None:
    """Use these weights in this process."""
    values = iter(weights)
    for patterns in _estimate.TABLES.values():
        for pattern in patterns:
            patterns[pattern] = next(values)


def main() -> int:
    """Print the table, or fit first and print the weights too."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of JSONL files (gzip)")
    parser.add_argument("--half", type=int, choices=(0, 1), help="only records of this half")
    parser.add_argument("--fit", action="store_true", help="fit on one half, judge the other (numpy is needed)")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args()
    found = samples(options.data)
    if options.fit:
        seen = options.half if options.half is not None else 0
        put(fit([s for s in found if s.half == seen or s.kind == "languages"]))
        for name, patterns in _estimate.TABLES.items():
            print(f"{name} = {patterns}")
        options.half = 1 - seen
    figures = table([s for s in found if options.half in (None, s.half)])
    ok = all(met(kind, f) for kind, f in figures.items())
    if options.json:
        print(json.dumps({"figures": figures, "ok": ok}))
        return 0 if ok else 1
    print(f"{'kind':14} {'texts':>6} {'median':>7} {'95th':>6} {'in 20 %':>8} {'sum/truth':>9} {'lowest thread':>13}")
    for kind, f in figures.items():
        print(
            f"{kind:14} {f['texts']:6} {f['median']:7.1%} {f['p95']:6.1%} {f['within_20']:8.1%} {f['mean_ratio']:9.3f}"
            f" {f['lowest_thread']:13.3f}{'' if met(kind, f) else '  short'}"
        )
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
