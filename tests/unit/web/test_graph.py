import re

from tests.unit.service.world import World
from tests.unit.web.conftest import Tab, add
from tokimori.clock import SECOND, Moment
from tokimori.model.access_token import Role
from tokimori.model.dependents import Edge, On
from tokimori.model.expectation import looked_at
from tokimori.model.ids import JobId
from tokimori.model.outcome import Failed, Succeeded, spawns_of
from tokimori.web.families import Node, families, layers, picture


def edges(*pairs: str) -> list[Edge]:
    """Edges of texts such as `a>b`."""
    ends = [tuple(map(JobId, pair.split(">"))) for pair in pairs]
    return [Edge(parent, child, On.SUCCESS, 0, child) for parent, child in ends]


def test_each_job_stands_behind_all_of_its_parents() -> None:
    """A long way and a short one to the same job: the long one counts."""
    assert layers(edges("a>b", "a>c", "b>d", "c>d", "a>d")) == [["a"], ["a\nd\n1", "b", "c"], ["d"]]
    assert layers(edges("a>z", "b>y")) == [["a", "b"], ["z", "y"]]


def test_families_are_told_apart() -> None:
    """Jobs that are connected by whatever way are one; the largest family is first."""
    found = families(edges("x>y", "a>b", "c>b", "c>d"))
    assert [len(each) for each in found] == [3, 1]
    many = edges(*(f"j{n:04}>j{n + 1:04}" for n in range(3_000)))
    assert len(families(many)) == 1 and len(layers(many)) == 3_001


def test_names_are_text_in_the_picture() -> None:
    """Whatever a job would be called."""
    drawn = picture(
        [Edge(JobId("<b>"), JobId("<i>"), On.SUCCESS, 0, JobId("<i>"))],
        lambda job: Node(job, "/jobs/<u>", "<s>", "q", "·", "<b>"),
        "/p",
    )
    assert not re.search("<[bisu]>", drawn) and 'href="/p/jobs/&lt;u&gt;"' in drawn


async def test_a_job_of_the_graph_opens_beside_it(world: World, tab: Tab) -> None:
    """A link, that shares and survives a reload; it says the cause, and what is before and after."""
    await add(world, "extract")
    await add(world, "load", parents=[{"job": "extract"}])
    await world.trigger("load")
    await world.work(Failed(error="no luck"))
    page = await tab.show("/graph?q=load&job=load")
    assert "Follows extract Cause failed: no luck" in page.text
    assert {"/graph?q=load", "/graph?q=load&job=extract", "/jobs/load"} <= set(page.links())
    assert "jobs.trigger" in page.acts()
    await tab.show("/graph?job=nope", 404)


async def test_families_show_the_last_outcome_of_each_job(world: World, tab: Tab) -> None:
    """As a picture whose nodes lead to the jobs, and as a list."""
    await add(world, "extract")
    await add(world, "load", parents=[{"job": "extract"}])
    await add(world, "alarm", parents=[{"job": "load", "on": "failure"}])
    await add(world, "alone")
    await world.trigger("extract")
    await world.work(Succeeded())
    await world.work(Failed(error="no luck"))
    page = await tab.show("/graph")
    assert "1 family of 3 jobs" in page.text and "alone" not in page.text
    assert "/jobs/load" in page.links() and "/graph?job=load" in page.links()
    assert "✓ succeeded" in page.text and "! failed" in page.text and "load on failure" in page.text
    assert "No family matches" in (await tab.show("/graph?q=nothing")).text
    assert "1 family" in (await tab.show("/graph?q=ALARM")).text


async def test_the_graph_says_when_jobs_ended_and_which_are_overdue(world: World, tab: Tab) -> None:
    """As the list of jobs does: an old success of a job that should have run since is no good sign."""
    await add(world, "extract")
    await add(world, "load", parents=[{"job": "extract"}], expect_within="1m")
    await world.trigger("extract")
    for seconds in (0, 90):
        await world.work(Succeeded())
        world.pass_seconds(seconds)
    page = await tab.show("/graph")
    assert "extract ✓ succeeded 1 min ago" in page.text and "load ✓ succeeded 1 min ago" in page.text
    alarm = looked_at(await world.service.expectations.get("load"), world.clock.now())[1]
    assert alarm is not None
    await world.service.expectations._alarms.add("load", alarm)
    for path in ("/graph", "/jobs/extract?tab=graph"):
        assert "load ◷ overdue for 31 s" in (await tab.show(path)).text, path
    assert "overdue" in (await tab.show("/graph?job=load")).text.partition("Follows")[0].rpartition("×")[2]


async def test_a_reader_sees_families_within_his_queue_alone(world: World) -> None:
    """Edges to jobs that he does not see are left out."""
    await add(world, "first", queue="mine")
    await add(world, "second", queue="mine", parents=[{"job": "first"}])
    await add(world, "hidden", queue="other", parents=[{"job": "first"}])
    token = await world.service.tokens.create("eve", Role.READ, queues=["mine"])
    page = await Tab(world, token.text).show("/graph")
    assert "1 family of 2 jobs" in page.text and "hidden" not in page.text


async def test_the_page_of_a_run_shows_the_steps_behind_it(world: World, tab: Tab) -> None:
    """All runs of its family, several of one job by their ids, in a picture and a list; and the orders for all."""
    for job in ("load", "total", "tell"):
        await add(world, job, max_running=0)
    ids = ["01b8dac5-b400-7000-8000-000000000001", "01b8dac5-b400-7000-8000-000000000002"]
    then = [{"id": ids[0], "job": "total", "joins": 2}, {"id": ids[1], "job": "tell", "on_failure": True}]
    first, second = await world.service.jobs.trigger_many("load", [{"then": then}] * 2)
    page = await tab.show(f"/runs/{first.id}")
    assert f"load {second.id[-8:]}" in page.text and f"/runs/{second.id}" in page.links()
    assert "total ◌ not made yet" in page.text and f"/runs/{ids[0]}" not in page.links()
    assert "Cancel family" in page.text and "Retry family" not in page.text
    world.pass_seconds(90)
    assert "ready for 1 min 30 s" in (await tab.show(f"/runs/{first.id}")).text
    await world.work(*[Succeeded()] * 3)
    page = await tab.show(f"/runs/{first.id}")
    assert page.links().count(f"/runs/{ids[0]}") == 3 and "tell ◌ not made after" in page.text
    assert "Retry family" in page.text and "Cancel family" not in page.text


async def test_the_page_of_a_run_shows_its_family(world: World, tab: Tab) -> None:
    """The runs before and after it, of its own chain and of no other; jobs that have no run there lead to the job."""
    await add(world, "first")
    await add(world, "second", parents=[{"job": "first"}])
    await add(world, "third", parents=[{"job": "second"}])
    await add(world, "alarm", parents=[{"job": "second", "on": "failure"}])
    ids = list[str]()
    for _ in range(2):
        ids.append((await world.trigger("first")).id)
        for _ in range(3):
            await world.work(Succeeded())
            world.clock.moment = Moment(world.clock.moment + SECOND)
    (_, second) = await world.service.runs.list(job_id="second")
    (other, third) = await world.service.runs.list(job_id="third")
    links = (await tab.show(f"/runs/{second.id}")).links()
    assert {f"/runs/{ids[0]}", f"/runs/{second.id}", f"/runs/{third.id}", "/jobs/alarm"} <= set(links)
    assert not {f"/runs/{ids[1]}", f"/runs/{other.id}"} & set(links)
    token = await world.service.tokens.create("eve", Role.READ, jobs=["second", "third"])
    seen = await Tab(world, token.text).show(f"/runs/{second.id}")
    assert f"/runs/{third.id}" in seen.links() and "first" not in seen.text and "alarm" not in seen.text


async def test_the_page_of_a_run_shows_few_of_many_that_it_has_spawned(world: World, tab: Tab) -> None:
    """Failed ones and live ones first, as spawned by it; how many are left out; one of many shows its own way."""
    await add(world, "split", max_running=0)
    await add(world, "part", max_running=0)
    run = await world.trigger("split")
    await world.work(spawns_of([("part", None)] * 30))
    parts = await world.service.runs.list(job_id="part")
    page = await tab.show(f"/runs/{run.id}")
    listed = page.text.partition("Spawned")[2]
    assert listed.count("ready") == 20 and "And 10 others" in listed
    assert page.text.count("spawned by split") == 8 and "22 more of it are not shown" in page.text
    assert "after split on success" not in page.text and f"run {parts[0].id}" not in page.text
    assert not any(each.get("class") == "s q dash" for _, each in page.all)
    page = await tab.show(f"/runs/{parts[0].id}")
    assert page.text.count("spawned by split") == 1 and f"/runs/{run.id}" in page.links()


async def test_a_run_whose_neighbours_a_reader_may_not_see_has_a_page(world: World) -> None:
    """Others of its family are seen, with nothing that leads from it to them: they are not its family there."""
    await add(world, "first", queue="other")
    await add(world, "alone", queue="mine", parents=[{"job": "first"}])
    await add(world, "second", queue="mine", parents=[{"job": "first"}])
    await add(world, "third", queue="mine", parents=[{"job": "second"}])
    await world.trigger("first")
    for _ in range(4):
        await world.work(Succeeded())
    (alone,) = await world.service.runs.list(job_id="alone")
    (third,) = await world.service.runs.list(job_id="third")
    token = await world.service.tokens.create("eve", Role.READ, queues=["mine"])
    page = await Tab(world, token.text).show(f"/runs/{alone.id}")
    assert f"/runs/{third.id}" not in page.links() and "first" not in page.text


async def test_jobs_of_a_family_are_listed_in_the_order_in_which_they_run(world: World, tab: Tab) -> None:
    """Whatever their names are."""
    for job, parents in (("z", []), ("y", ["z"]), ("a", ["y"])):
        await add(world, job, parents=[{"job": each} for each in parents])
    text = (await tab.show("/graph")).text.partition("z and 2 related")[2]
    assert re.search(r"z .*? y .*?after z.*? a .*?after y", text)
