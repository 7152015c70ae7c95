"""The control: each agent as it is, without Keyward. Every planted secret reaches the model."""
import stage as stages


def test_the_shell_of_a_bare_agent_shows_the_model_every_mark(agent, stage, models):
    models.script.on("LOOKHARD", {"shell": stages.COLLECT}, {"say": "FINISHED"})
    ran = stage.bare(agent, "LOOKHARD please", models)
    assert ran.code == 0 and "FINISHED" in ran.out, (ran, models.problems)
    assert len(stage.marks_in(models.bodies())) == 19


def test_parallel_tools_and_a_resumed_conversation_work_with_the_double(agent, stage, models):
    models.script.on("FIRSTLY", [{"shell": "printf 'par%sone' 2"}, {"shell": "printf 'par%stwo' 2"}], {"say": "FIRST DONE"})
    models.script.on("SECONDLY", {"shell": "printf 'aft%ser' 2"}, {"say": "SECOND DONE"})
    first = stage.bare(agent, "FIRSTLY please", models)
    assert "FIRST DONE" in first.out, (first, models.problems)
    assert b"par2one" in models.bodies() and b"par2two" in models.bodies()
    models.forget()
    second = stage.bare(agent, "SECONDLY please", models, resume=True)
    assert "SECOND DONE" in second.out, (second, models.problems)
    assert b"aft2er" in models.bodies()
    assert b"FIRST DONE" in models.bodies(), "the conversation was not resumed"


def test_the_key_of_a_bare_agent_is_in_the_header_of_its_request(agent, stage, models):
    stage.bare(agent, "hello", models)
    name = {"claude": "ANTHROPIC_API_KEY", "gemini": "GEMINI_API_KEY"}.get(agent, "OPENAI_API_KEY")
    assert any(stage.marks[name].value in value for value in models.header_values()), models.requests
