"""Answers from documents inside a turn: what is asked, searched, stored and noted, and what is not."""

from __future__ import annotations

import anyio
import pytest

import novelo
from novelo.errors import InvalidSpec
from novelo.models.offline import Offline
from novelo.retrieval import NOT_FOUND
from novelo.testing import ScriptedModel

DOUBLE = {
    "text": "Uma cobrança em duplicidade é reembolsada em até 5 dias úteis; com Pix, na conta de origem.",
    "title": "Cobranças", "section": "Fui cobrado duas vezes", "source": "cobrancas.md", "score": 0.9,
}  # fmt: skip
PAUSE = {"text": "Se você já tiver pago o mês, os dias ficam guardados.", "source": "conta.md", "score": 0.4}
CHARGED, PIX = "Fui cobrado duas vezes. Qual é o prazo do reembolso?", "E se eu tiver pago com Pix?"
REWRITTEN = "Como é o reembolso da cobrança em duplicidade paga com Pix?"


class Shelf:
    """A retriever that gives the same passages and remembers what it was asked."""

    def __init__(self, *passages):
        self.passages, self.asked = list(passages), []

    def search(self, question, limit=5):
        """All of them, up to the limit."""
        self.asked.append(question)
        return self.passages[:limit]


@pytest.fixture
def memory():
    """A memory that keeps nothing and works on nothing behind."""
    with novelo.open("memory://", worker="off") as opened:
        yield opened


def answer(thread, question, model, retriever, **options):
    """One turn answered from documents."""
    with thread.turn(question) as turn:
        return turn.answer(model, retriever, **options)


def purposes(thread):
    """What the thread's calls were for, in order."""
    return [call.purpose for call in thread.usage()]


def test_a_first_question_costs_one_call(memory):
    """It is searched as it was asked; the answer is stored and the passages are not; sources are what it names."""
    thread, shelf, model = memory.thread("t"), Shelf(DOUBLE, PAUSE), ScriptedModel(["Em até 5 dias úteis [1]."])
    found = answer(thread, CHARGED, model, shelf)
    assert (found.text, found.found, found.sources) == ("Em até 5 dias úteis [1].", True, (DOUBLE,))
    assert shelf.asked == [CHARGED] and purposes(thread) == ["reply"]
    assert [m.message.text for m in thread.messages()] == [CHARGED, "Em até 5 dias úteis [1]."]
    sent = model.requests[0].messages
    assert sent[-1]["content"].startswith("[1]\n> Cobranças › Fui cobrado duas vezes (cobrancas.md)\n> Uma cobrança")
    assert sent[-1]["content"].endswith(f"\n\n{CHARGED}")


def test_the_manifest_says_what_was_searched_and_found(memory):
    """Decision, queries, passages with scores and what was too weak are kept with the turn, and told in words."""
    thread = memory.thread("t")
    answer(thread, CHARGED, ScriptedModel(["5 dias [1]."]), Shelf(DOUBLE, PAUSE), min_score=0.5)
    kept = thread.manifest(1)
    assert kept.passages == [DOUBLE] and kept.tokens["passages"] > 0
    assert kept.retrieved.queries == [(CHARGED, 1.0)] and kept.retrieved.decision
    assert kept.retrieved.rejected == [{"source": "conta.md", "score": 0.4}]
    told = novelo.context.manifest.explain(kept)
    assert "[1] Cobranças › Fui cobrado duas vezes (cobrancas.md), score 0.90" in told
    assert "too weak (least 0.50): conta.md, score 0.40" in told and f"searched: {CHARGED}" in told


def test_a_follow_up_is_rewritten_and_both_calls_are_in_the_ledger(memory):
    """The rewriting call has its purpose, both wordings are searched, and the model answers the user's own words."""
    thread, shelf = memory.thread("t"), Shelf(DOUBLE)
    model = ScriptedModel(["5 dias [1].", REWRITTEN, "Volta à conta [1]."])
    answer(thread, CHARGED, model, shelf)
    seen = []
    found = answer(thread, PIX, model, shelf, on_query=seen.append)
    assert shelf.asked[1:] == [REWRITTEN, PIX] and purposes(thread) == ["reply", "condense", "reply"]
    assert seen[0].decision == "rewritten" and [q for q, _ in seen[0].queries] == [REWRITTEN, PIX]
    assert thread.manifest(2).question == REWRITTEN and found.retrieved.decision == "rewritten"
    assert model.requests[2].messages[-1]["content"].endswith(f"\n\n{PIX}") and model.requests[2].question == REWRITTEN
    assert all(call.turn == 2 for call in list(thread.usage())[1:])


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("Qual é a cor do cavalo branco?", "pt"),
        ("What is the colour of the white horse?", "en"),
        ("白马是什么颜色的?", "zh"),
    ],
)
def test_without_support_the_user_is_told_and_no_model_is_asked(memory, question, language):
    """The sentence is stored as the answer, in the user's language; the manifest keeps what was too weak."""
    thread, model = memory.thread("t"), ScriptedModel([])
    found = answer(thread, question, model, Shelf(PAUSE), min_score=0.5)
    assert (found.text, found.found, found.sources) == (NOT_FOUND[language], False, ())
    assert thread.messages()[-1].message.text == NOT_FOUND[language]
    assert purposes(thread) == [] and not thread.manifest(1).retrieved.answered
    assert thread.turns()[-1].status == "done"


@pytest.mark.parametrize("request_", ["explique melhor", "E o segundo?", "more details", "说详细一点", "más detalles"])
def test_a_request_for_more_is_answered_from_the_former_passages(memory, request_):
    """No search, no rewriting; the passages of the turn before stand in the call again, also a turn later."""
    thread, shelf = memory.thread("t"), Shelf(DOUBLE, PAUSE)
    model = ScriptedModel(["5 dias [1].", "Mais [1].", "Ainda mais [2]."])
    answer(thread, CHARGED, model, shelf)
    for _ in range(2):
        found = answer(thread, request_, model, shelf)
    assert shelf.asked == [CHARGED] and purposes(thread) == ["reply"] * 3
    assert found.sources == (PAUSE,) and thread.manifest(3).passages == [DOUBLE, PAUSE]
    assert thread.manifest(3).retrieved.queries == []


@pytest.mark.parametrize(
    ("charged", "lost", "thanks", "why"),
    [
        (CHARGED, "Quem escreveu Hamlet?", "obrigada", "por quê?"),
        ("I was charged twice. When do I get it back?", "Who wrote Hamlet?", "thanks", "why?"),
        ("我被重复扣款了,退款要多久?", "《红楼梦》是谁写的?", "谢谢", "为什么?"),
    ],
)
def test_behind_nothing_found_no_older_passages_come(memory, charged, lost, thanks, why):
    """What asks about an answer that nothing was found is told the same again, without a search or a call."""
    thread, shelf = memory.thread("t"), Shelf(DOUBLE)
    answer(thread, charged, Offline(), shelf)
    nothing = answer(thread, lost, Offline(), Shelf()).text
    answer(thread, thanks, Offline(), shelf)
    before = purposes(thread)
    found = answer(thread, why, ScriptedModel([]), shelf)
    assert (found.text, found.found, found.passages) == (nothing, False, ()) and purposes(thread) == before
    assert found.retrieved.decision == "nothing was found before" and shelf.asked == [charged]
    answer(thread, charged, Offline(), shelf)
    assert answer(thread, why, Offline(), shelf).passages == (DOUBLE,)


def test_an_answer_composes_twice(memory, monkeypatch):
    """What was said before the question, and the call; only a budget without room for all passages costs more."""
    thread, made = memory.thread("t"), []
    answer(thread, CHARGED, Offline(), Shelf(DOUBLE))
    compose = type(thread).compose
    monkeypatch.setattr(type(thread), "compose", lambda self, *a, **k: made.append(1) or compose(self, *a, **k))
    answer(thread, PIX, Offline(), Shelf(DOUBLE, PAUSE))
    assert len(made) == 2


def test_what_was_said_before_is_looked_at_first(memory):
    """A question for the former answer has the passage that it rested on first, then what the search finds."""
    thread = memory.thread("t")
    model = ScriptedModel(["5 dias [2].", "Qual era o prazo do reembolso da cobrança?", "5 dias [1]."])
    answer(thread, CHARGED, model, Shelf(PAUSE, DOUBLE))
    other = {"text": "O prazo de entrega é de 3 dias.", "source": "entregas.md"}
    found = answer(thread, "Qual era o prazo que você falou?", model, Shelf(other))
    assert found.passages == (DOUBLE, other) and found.sources == (DOUBLE,)


def test_a_fork_knows_the_former_passages_that_it_shares(memory):
    """A request for more in a fork, also in a fork of one, is answered from the passages of the turn it shares."""
    thread = memory.thread("t")
    answer(thread, CHARGED, ScriptedModel(["5 dias [1]."]), Shelf(DOUBLE))
    answer(thread, "E a pausa?", ScriptedModel(["Os dias ficam [1]."]), Shelf(PAUSE), condenser=False)
    for fork in (thread.fork(2), thread.fork(2).fork(), thread.fork(3)):
        assert answer(fork, "explique melhor", ScriptedModel(["Até 5 dias [1]."]), Shelf()).passages == (DOUBLE,)
    assert answer(thread.fork(), "explique melhor", ScriptedModel(["Ficam [1]."]), Shelf()).passages == (PAUSE,)
    alone = answer(thread.fork(0), "explique melhor", ScriptedModel([]), Shelf())
    assert (alone.passages, alone.found) == ((), False)


def test_former_passages_of_a_turn_that_is_hidden_are_gone(memory):
    """What was undone is no evidence, and neither are passages that a redaction took out of the manifest."""
    thread, shelf = memory.thread("t"), Shelf(DOUBLE)
    answer(thread, CHARGED, ScriptedModel(["5 dias [1]."]), shelf)
    thread.hide([0, 1])
    answer(thread, "explique melhor", ScriptedModel(["?"]), shelf)
    assert shelf.asked == [CHARGED, "explique melhor"]
    other = memory.thread("u")
    answer(other, CHARGED, ScriptedModel(["5 dias [1]."]), shelf)
    other.redact("duas vezes")
    assert other.manifest(1).passages == [] and other.manifest(1).retrieved is None


@pytest.mark.parametrize("text", ["Obrigada!", "🙂", "你好"])
def test_small_talk_is_not_searched(memory, text):
    """Thanks and signs go to the model without passages: they are no question that documents could answer."""
    shelf, model = Shelf(DOUBLE), ScriptedModel(["De nada!"])
    assert answer(memory.thread("t"), text, model, shelf).text == "De nada!"
    assert shelf.asked == [] and model.requests[0].messages[-1]["content"] == text


def test_the_policy_masks_passages_and_the_rewriting_call(memory):
    """What a policy masks reaches neither call, and the manifest does not keep it."""
    thread = memory.thread("t", policy="window:10turns + redact:emails,question")
    model = ScriptedModel(["ok [1].", "Qual é o prazo do reembolso?", "ok [1]."])
    secret = {"text": "Escreva a rita@example.org para o prazo.", "source": "a.md"}
    shelf = Shelf(secret)
    answer(thread, "Meu e-mail é otto@example.org. Qual é o prazo?", model, shelf)
    answer(thread, "E o e-mail eva@example.org?", model, shelf)
    said = str([r.messages for r in model.requests]) + str(shelf.asked) + str(thread.manifest(2))
    assert "example.org" not in said and "[e-mail]" in said


def test_passages_that_a_budget_has_no_room_for_are_left_out(memory):
    """The best ones stay; where there is room for none the question is still put."""
    long = [{"text": f"{n} " + "prazo do reembolso " * 60, "source": f"{n}.md"} for n in range(5)]
    for budget, most in ((900, 3), (300, 0)):
        thread = memory.thread(f"t{budget}", policy=f"budget:{budget}")
        found = answer(thread, CHARGED, ScriptedModel(["ok"]), Shelf(*long))
        assert len(found.passages) <= most and found.context.tokens <= budget
        assert [p["source"] for p in found.passages] == [f"{n}.md" for n in range(len(found.passages))]
    assert found.passages == ()


def test_a_limit_that_is_used_up_refuses_the_turn():
    """Rewriting calls count for limits; a refused question asks nobody."""
    with novelo.open("memory://", worker="off", limits=["thread:1tokens"]) as memory:
        thread, shelf = memory.thread("t"), Shelf(DOUBLE)
        answer(thread, CHARGED, ScriptedModel(["5 dias [1]."]), shelf)
        with pytest.raises(novelo.LimitReached):
            answer(thread, PIX, ScriptedModel([]), shelf)
        assert len(shelf.asked) == 1 and len(thread) == 2


def test_the_same_key_gives_the_stored_answer_and_its_sources(memory):
    """A request that came twice is neither searched nor asked again."""
    thread, shelf, model = memory.thread("t"), Shelf(PAUSE, DOUBLE), ScriptedModel(["5 dias [2]."])
    for _ in range(2):
        with thread.turn(CHARGED, key="k") as turn:
            found = turn.answer(model, shelf)
    assert (found.text, found.sources, found.found) == ("5 dias [2].", (DOUBLE,), True) and len(shelf.asked) == 1


def test_a_failing_model_leaves_the_question_and_what_was_spent(memory):
    """The turn is closed as failed, the rewriting call stays in the ledger, and a retry answers."""
    thread, shelf = memory.thread("t"), Shelf(DOUBLE)
    answer(thread, CHARGED, ScriptedModel(["5 dias [1]."]), shelf)
    with pytest.raises(RuntimeError):
        answer(thread, PIX, ScriptedModel([REWRITTEN, RuntimeError("down")]), shelf)
    assert purposes(thread) == ["reply", "condense"] and thread.turns()[-1].status == "failed"
    with thread.retry() as turn:
        assert turn.answer(ScriptedModel([REWRITTEN, "Volta [1]."]), shelf).text == "Volta [1]."


def test_a_failing_retriever_closes_the_turn_as_failed(memory):
    """The retriever's error comes out, and the question stays."""
    thread = memory.thread("t")
    with pytest.raises(ZeroDivisionError):
        answer(thread, CHARGED, ScriptedModel([]), lambda question: 1 / 0)
    assert thread.turns()[-1].status == "failed" and len(thread) == 1


def test_a_failing_rewriting_is_no_failure(memory):
    """The user's own words are searched, and the manifest says why."""
    thread, shelf = memory.thread("t"), Shelf(DOUBLE)
    model = ScriptedModel(["5 dias [1].", TimeoutError("slow"), "Volta [1]."])
    answer(thread, CHARGED, model, shelf)
    found = answer(thread, PIX, model, shelf)
    assert PIX in shelf.asked and "TimeoutError" in found.retrieved.decision


def test_the_system_prompt_stays_in_front(memory):
    """The application's prompt comes first, ours behind it; also one that is stored in the thread."""
    thread = memory.thread("t", system="Você é a Lia.")
    model = ScriptedModel(["ok", "ok"])
    answer(thread, CHARGED, model, Shelf(DOUBLE))
    other = memory.thread("u")
    other.append([{"role": "system", "content": "Seja breve."}])
    answer(other, CHARGED, model, Shelf(DOUBLE), prompt="Em {language}; senão: {nothing}")
    assert model.requests[0].messages[0]["content"].startswith("Você é a Lia.\n\nAnswer the user's question")
    expected = f"Seja breve.\n\nEm Portuguese (português); senão: {NOT_FOUND['pt']}"
    assert model.requests[1].messages[0] == {"role": "system", "content": expected}


def test_an_answer_is_streamed(memory):
    """Pieces are passed on as they come; what is stored is the whole."""
    thread, pieces = memory.thread("t"), []
    found = answer(thread, CHARGED, Offline(), Shelf(DOUBLE), on_text=pieces.append)
    assert len(pieces) > 3 and "".join(pieces) == found.text == thread.messages()[-1].message.text
    assert "Uma cobrança em duplicidade" in found.text and found.sources == (DOUBLE,)


def test_any_retriever_will_do(memory):
    """A function, an object with `search`, LangChain's `invoke`; a text, a dict, a Document."""

    class Document:
        def __init__(self, page_content, metadata):
            self.page_content, self.metadata = page_content, metadata

    class LangChain:
        def invoke(self, query):
            return [
                Document(
                    "O prazo é de 5 dias.", {"Header 1": "Prazos", "Header 2": "Pix", "file_path": "p.md", "x": {}}
                )
            ]

    for number, (retriever, passage) in enumerate(
        [
            (lambda question: ["O prazo é de 5 dias."], {"text": "O prazo é de 5 dias."}),
            (LangChain(), {"text": "O prazo é de 5 dias.", "source": "p.md", "section": "Prazos › Pix"}),
            (Shelf(DOUBLE), DOUBLE),
        ]
    ):
        found = answer(memory.thread(str(number)), CHARGED, ScriptedModel(["5 dias [1]."]), retriever)
        assert found.sources == (passage,)
    with pytest.raises(novelo.InvalidSpec, match="retriever"):
        answer(memory.thread("none"), CHARGED, ScriptedModel([]), 7)
    with pytest.raises(novelo.InvalidSpec, match="with one"):
        answer(memory.thread("bad"), CHARGED, ScriptedModel([]), lambda question: [{"title": "x"}])
    with pytest.raises(novelo.InvalidSpec, match="limit"):
        answer(memory.thread("limit"), CHARGED, ScriptedModel([]), Shelf(), limit=0)


@pytest.mark.parametrize(
    "question",
    [
        "x" * 100_000,
        "prazo " * 17_000,
        "🙂" * 1000,
        "¿?¡!",
        "\u2028\n\u200b",
        "Quel est le délai de remboursement ?",
        "払い戻しの期限は?",
        "\ud800",
        "a\x00b",
    ],
)
def test_odd_questions_get_an_answer(memory, question):
    """100 kB, signs alone, other languages, half a surrogate pair: a clear answer, an open thread, no crash."""
    thread, shelf = memory.thread("t"), Shelf()
    for number in (1, 2):
        found = answer(thread, question, Offline(), shelf, min_score=0.5)
        assert found.text and len(thread) == 2 * number
    assert all(len(asked) <= 2000 for asked in shelf.asked)


def test_the_same_awaited(memory):
    """The async twin does the same; models and retrievers are awaited where they can be."""

    class Slow:
        def __init__(self, replies):
            self.inner = ScriptedModel(replies)

        async def acomplete(self, request):
            await anyio.sleep(0)
            return self.inner.complete(request)

        def complete(self, request):
            raise AssertionError("this model is awaited")

    async def retriever(question):
        await anyio.sleep(0)
        return [DOUBLE]

    async def main():
        async with novelo.open_async("memory://", worker="off") as opened:
            thread = opened.thread("t")
            model = Slow(["5 dias [1].", REWRITTEN, "Volta [1]."])
            async with thread.turn(CHARGED) as turn:
                first = await turn.answer(model, retriever)
            async with thread.turn(PIX) as turn:
                second = await turn.answer(model, retriever)
            pieces = []
            async with thread.turn("explique melhor") as turn:
                third = await turn.answer(Offline(), Shelf(), on_text=pieces.append)
            async with thread.turn("Qual é a cor do cavalo?", key="k") as turn:
                fourth = await turn.answer(model, Shelf())
            async with thread.turn("Qual é a cor do cavalo?", key="k") as turn:
                again = await turn.answer(model, Shelf())
            async with thread.turn("Oi!") as turn:
                said = await turn.ask(Slow(["Olá!"]))
            usage = [call.purpose for call in await thread.usage()]
            return first, second, third, "".join(pieces), fourth, again, said.text, usage

    first, second, third, streamed, fourth, again, said, usage = anyio.run(main)
    assert (first.sources, second.retrieved.decision, third.passages) == ((DOUBLE,), "rewritten", (DOUBLE,))
    assert streamed == third.text and (fourth.found, again.found, fourth.text) == (False, False, again.text)
    assert said == "Olá!" and usage == ["reply", "condense", "reply", "reply", "reply"]


def test_a_function_is_a_model(memory):
    """A text that it gives is the answer; a follow-up is rewritten by it too; a name is refused before it is asked."""
    asked = []

    def model(request):
        asked.append(request.purpose)
        return REWRITTEN if request.purpose == "condense" else "Na conta de origem [1]."

    thread = memory.thread("t")
    answer(thread, CHARGED, model, Shelf(DOUBLE))
    assert answer(thread, PIX, model, Shelf(DOUBLE)).retrieved.decision == "rewritten"
    assert asked == ["reply", "condense", "reply"]
    with pytest.raises(novelo.InvalidSpec, match=r"novelo\.connect\.model\('offline'\)"):
        answer(thread, PIX, "offline", Shelf(DOUBLE))
    with pytest.raises(novelo.InvalidSpec, match="model int"):
        answer(thread, PIX, 42, Shelf(DOUBLE))


def test_an_async_function_is_a_model():
    """It is awaited in async code, and asked from a thread of its own elsewhere; pieces come as one."""

    async def model(request):
        await anyio.sleep(0)
        return f"{request.purpose} [1]"

    async def main():
        async with novelo.open_async("memory://", worker="off") as memory:
            told = []
            async with memory.thread("t").turn(CHARGED) as turn:
                found = await turn.answer(model, Shelf(DOUBLE), on_text=told.append)
            async with memory.thread("u").turn("Oi!") as turn:
                said = await turn.ask(model)
            return found.text, told, said.text

    assert anyio.run(main) == ("reply [1]", ["reply [1]"], "reply [1]")
    with novelo.open("memory://", worker="off") as memory, memory.thread("t").turn("Oi!") as turn:
        assert turn.ask(model).text == "reply [1]"


def test_small_talk_carries_nothing(memory):
    """Behind a greeting a question is a first one; a follow-up leans on no "explique melhor" and no "Não encontrei"."""
    thread = memory.thread("t")
    answer(thread, "Oi, bom dia!", Offline(), Shelf(DOUBLE))
    assert answer(thread, CHARGED, Offline(), Shelf(DOUBLE)).retrieved.decision == "first message"
    answer(thread, "explique melhor", Offline(), Shelf())
    answer(thread, "Quem pintou o Abaporu?", Offline(), Shelf())
    answer(thread, "obrigada!", Offline(), Shelf())
    found = answer(thread, PIX, Offline(), Shelf(DOUBLE)).retrieved
    assert found.decision == "carried"
    searched = " ".join(text for text, _ in found.queries)
    assert "Abaporu" in searched and "Fui cobrado duas vezes" in searched
    assert not any(word in searched for word in ("bom", "explique", "obrigada", "Encontrei", "encontrei", "Novelo"))


def test_a_stream_is_told_every_answer(memory):
    """Who streams is told of what nobody had to be asked for, too: that nothing was found, and a stored answer."""
    thread, told = memory.thread("t"), []
    with thread.turn("Qual é a cor do cavalo?") as turn:
        turn.answer(ScriptedModel([]), Shelf(), on_text=told.append)
    with thread.turn(CHARGED, key="k") as turn:
        turn.answer(ScriptedModel(["5 dias [1]."]), Shelf(DOUBLE), condenser=False, on_text=told.append)
    with thread.turn(CHARGED, key="k") as turn:
        turn.answer(ScriptedModel([]), Shelf(), on_text=told.append)
    assert "".join(told) == NOT_FOUND["pt"] + 2 * "5 dias [1]."

    async def main():
        async with novelo.open_async("memory://", worker="off") as opened:
            for _ in range(2):
                async with opened.thread("t").turn("Qual é a cor do cavalo?", key="k") as turn:
                    await turn.answer(ScriptedModel([]), Shelf(), on_text=told.append)

    told.clear()
    anyio.run(main)
    assert told == 2 * [NOT_FOUND["pt"]]


def test_a_collection_of_an_async_memory_is_a_retriever():
    """What `AsyncMemory.documents` gives answers a turn of the same memory, and one of ours beside it does, too."""

    async def main():
        async with novelo.open_async("memory://", worker="off") as opened:
            docs = opened.documents("faq", embedder=None)
            await docs.add([{"text": DOUBLE["text"], "source": "cobrancas.md"}])
            texts = []
            for retriever in (docs, docs._inner):
                async with opened.thread("t").turn("Como é reembolsada uma cobrança em duplicidade?") as turn:
                    texts.append((await turn.answer(ScriptedModel(["5 dias [1]."]), retriever, condenser=False)).text)
            return texts

    assert anyio.run(main) == 2 * ["5 dias [1]."]


@pytest.mark.parametrize("given", ["um texto", {"text": "x"}, 5])
def test_what_a_retriever_gives_is_a_list_of_passages(memory, given):
    """A function that found nothing may give None; one that gives no list is told what is expected."""
    thread = memory.thread("t")
    assert not answer(thread, CHARGED, ScriptedModel([]), lambda question: None).found
    with pytest.raises(InvalidSpec, match="expected a list of passages"):
        answer(thread, "E o frete de um livro?", ScriptedModel([]), lambda question: given, condenser=False)
