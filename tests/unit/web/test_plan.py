import re
from datetime import UTC, datetime
from itertools import pairwise

from tests.unit.service.world import World
from tests.unit.web.conftest import Tab, add
from tokimori.clock import DAY, HOUR, MINUTE, SECOND, Moment
from tokimori.model.access_token import Role
from tokimori.model.outcome import Failed, Succeeded
from tokimori.schedules.days_off import parse_days_off
from tokimori.schedules.parse import parse_schedule
from tokimori.web.plan import Lane, Tick, Window, busiest, calendar_file, collisions, days_off, firings, jumps, marks
from tokimori.web.plan import picture as drawn
from tokimori.web.screens.plan import RUNS_OF_EACH


def at(text: str) -> Moment:
    return Moment(int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND)


def window(first: str, length: int = DAY, zone: str = "UTC") -> Window:
    return Window(at(first), Moment(at(first) + length), Moment(at(first) + 6 * HOUR), zone)


def test_firings_are_counted_to_the_end_and_listed_to_a_bound() -> None:
    """A job of each minute is counted by formula: nobody walks a month of them."""
    schedule = parse_schedule("* * * * *", zone="UTC", anchor=Moment(0))
    listed, number = firings(schedule, Moment(0), Moment(31 * DAY))
    assert (len(listed), number) == (1_500, 31 * 1_440)
    assert firings(schedule, Moment(0), Moment(3 * MINUTE)) == ([MINUTE, 2 * MINUTE, 3 * MINUTE], 3)


def test_long_firings_at_once_are_found() -> None:
    """Neighbours that touch are not at once; the most at a time is told."""
    lengths = [(Moment(a), Moment(b)) for a, b in ((0, 10), (10, 20), (15, 30), (18, 19), (40, 50))]
    assert collisions(lengths) == [(15, 20, 3)]
    assert collisions([]) == []


def test_labels_that_would_cover_each_other_leave_narrow_windows() -> None:
    """Those at both ends, and of a month all but every sixth day's."""
    for length, least in ((DAY, 8.0), (7 * DAY, 14.0), (31 * DAY, 16.0)):
        labels = re.findall(
            r'<text class="([^"]*)" x="([\d.]+)%" y="14">', drawn([], window("2030-01-01T00:00", length))
        )
        kept = [float(x) for classes, x in labels if "w4" not in classes.split()]
        assert kept and min(kept) > 2 and max(kept) < 98
        assert all(after - before > least for before, after in pairwise(kept)), kept


def test_the_busiest_minute_is_the_first_of_the_busiest() -> None:
    """Seconds within a minute are one."""
    assert busiest([Moment(MINUTE), Moment(MINUTE + 5), Moment(3 * MINUTE), Moment(3 * MINUTE + 1)]) == (MINUTE, 2)
    assert busiest([]) is None


def test_days_off_go_by_the_clocks_of_the_job() -> None:
    """Two days off in a row are one stretch, from midnight to midnight there."""
    days = parse_days_off(("2030-01-02", "2030-01-03"), ())
    assert days_off(days, window("2030-01-01T00:00", 7 * DAY), "Asia/Tokyo") == [
        (at("2030-01-01T15:00"), at("2030-01-03T15:00"))
    ]
    assert days_off(days, window("2030-02-01T00:00", 7 * DAY), "UTC") == []


def test_hours_that_clocks_skip_or_repeat_are_marked() -> None:
    """What is skipped has no length; what is repeated lasts twice as long."""
    ((first, last, says),) = jumps(window("2030-03-30T18:00", zone="Europe/Berlin"))
    assert (first, last, says) == (at("2030-03-31T01:00"), at("2030-03-31T01:00"), "clocks skip 1 h")
    ((first, last, says),) = jumps(window("2030-10-26T18:00", zone="Europe/Berlin"))
    assert (first, last, says) == (at("2030-10-27T00:00"), at("2030-10-27T02:00"), "clocks repeat 1 h")


def test_the_scale_names_hours_or_days() -> None:
    """On a day of 23 hours midnight is where clocks show it."""
    assert [says for _, says in marks(window("2030-01-01T18:00"))][:5] == ["18:00", "20:00", "22:00", "Wed 2", "02:00"]
    week = marks(window("2030-03-29T23:00", 7 * DAY, "Europe/Berlin"))
    assert week[1:3] == [(at("2030-03-30T23:00"), "Sun 31 Mar"), (at("2030-03-31T22:00"), "Mon 1 Apr")]


def test_names_are_text_in_the_picture_and_the_calendar() -> None:
    """Markup, commas and new lines of others end nothing; lines have at most 75 bytes."""
    tick = Tick(at("2030-01-01T08:00"), at("2030-01-01T09:00"), "", "<b>")
    lane = Lane("<i>", None, "<u>", [tick], 500, True, [], "<s>")
    assert not re.search("<[bius]>", drawn([lane], window("2030-01-01T00:00")))
    text = calendar_file([("a,b;c\nEND:VEVENT", tick.first, HOUR, "é" * 200)], Moment(0), "x")
    assert text.count("\r\nEND:VEVENT") == 1 and "SUMMARY:a\\,b\\;c END:VEVENT\r\n" in text
    assert "DTSTART:20300101T080000Z\r\n" in text and "DURATION:PT3600S\r\n" in text
    assert max(len(line.encode()) for line in text.split("\r\n")) <= 75


async def test_the_plan_shows_what_ran_beside_what_is_to_come(world: World, tab: Tab) -> None:
    """What fires too often to be seen is a band with its number; what waits for nobody is said."""
    await add(world, "hourly", schedule="0 * * * *")
    await add(world, "often", schedule="* * * * *", queue="fast")
    await add(world, "stopped", schedule="30 1 * * *")
    await add(world, "by-hand")
    await world.service.jobs.pause("stopped")
    await world.trigger("hourly")
    await world.work(Succeeded())
    await world.trigger("hourly")
    await world.work(Failed(error="no luck"))
    page = await tab.show("/plan")
    lanes = [link for link in page.links() if link.startswith("/jobs/")]
    assert lanes[:3] == ["/jobs/often", "/jobs/hourly", "/jobs/stopped"]
    classes = [str(each.get("class")) for each in page.named("rect")]
    assert "f bad" in classes and "f ok" in classes and classes.count("next") >= 18
    assert "to come" in page.text and "paused: will be skipped" in page.text and "busiest minute to come" in page.text
    assert "by-hand" not in page.text and not any("style" in attributes for _, attributes in page.all)
    assert "often" not in (await tab.show("/plan?queue=default&span=month")).text
    assert "/jobs?queue=fast" in (await tab.show("/plan?lanes=queue")).links()
    assert "failed" not in [str(each.get("class")) for each in (await tab.show("/plan?at=2&span=week")).named("rect")]
    await tab.show("/plan?at=1000", 422)
    await tab.show("/plan?at=x", 422)


async def test_the_calendar_has_the_next_firings(world: World, tab: Tab) -> None:
    """Those of the filter alone, as many as a calendar bears."""
    await add(world, "hourly", schedule="0 * * * *")
    await add(world, "often", schedule="* * * * *", queue="fast")
    answer = await tab.ask("/calendar.ics?queue=default")
    assert answer.headers["content-type"].startswith("text/calendar")
    text = answer.body.decode()
    assert text.count("BEGIN:VEVENT") == 100 and "SUMMARY:often" not in text and "SUMMARY:hourly" in text


async def test_a_reader_sees_the_plan_of_his_queue_alone(world: World) -> None:
    """Neither as a lane, nor in a number, nor in the calendar."""
    await add(world, "mine", schedule="0 * * * *", queue="mine")
    await add(world, "hidden", schedule="0 * * * *", queue="other")
    token = await world.service.tokens.create("eve", Role.READ, queues=["mine"])
    eve = Tab(world, token.text)
    page = await eve.show("/plan")
    assert "hidden" not in page.text and "1 job " in page.text + " "
    assert b"hidden" not in (await eve.ask("/calendar.ics")).body


async def test_each_firing_is_listed_with_its_own_job(world: World, tab: Tab) -> None:
    """The list says of each moment which job fires then."""
    await add(world, "early", schedule="0 3 * * *", time_zone="UTC")
    await add(world, "late", schedule="0 5 * * *", time_zone="UTC")
    text = (await tab.show("/plan")).text.partition("Firings to come")[2]
    assert re.search(r":00:00 early daily at 03:00.*:00:00 late daily at 05:00", text)


async def test_lanes_without_a_firing_are_counted_alone(world: World, tab: Tab) -> None:
    """A job that does not fire in the period has no lane; where none does, that is said."""
    await add(world, "daily", schedule="0 5 * * *", time_zone="UTC")
    await add(world, "yearly", schedule="0 5 1 6 *", time_zone="UTC")
    page = await tab.show("/plan")
    assert "/jobs/yearly" not in page.links() and "2 jobs, 1 without a firing in this period" in page.text
    assert "This job does not fire in this period" in (await tab.show("/plan?q=yearly")).text


async def test_earlier_runs_that_are_not_read_are_a_thin_line(world: World, tab: Tab) -> None:
    """Of a frequent job the newest runs alone are read: before them it is not as if nothing had run."""
    await add(world, "often", max_running=0)
    await world.service.jobs.update("often", schedule="* * * * *")
    for _ in range(RUNS_OF_EACH + 1):
        world.pass_seconds(60)
        await world.trigger("often")
        await world.work(Succeeded())
    thin = [each for each in (await tab.show("/plan")).named("rect") if each.get("height") == "5"]
    assert [each.get("class") for each in thin] == ["next", "f ok"]


async def test_a_lane_of_many_firings_is_one_band_before_now_too(world: World, tab: Tab) -> None:
    """But for what failed: the newest runs alone are no stretch in which more ran than before."""
    await add(world, "often", max_running=0)
    await world.service.jobs.update("often", schedule="* * * * *")
    for outcome in (Succeeded(), Failed(error="no luck"), Succeeded()):
        world.pass_seconds(60)
        await world.trigger("often")
        await world.work(outcome)
    drawn = [each for each in (await tab.show("/plan")).named("rect") if str(each.get("class")).startswith("f ")]
    high = [str(each.get("class")) for each in drawn if each.get("height") == "15"]
    assert high == ["f bad"] and "f ok" in [each.get("class") for each in drawn if each.get("height") == "5"]


async def test_a_week_ends_at_midnight(world: World, tab: Tab) -> None:
    """When clocks change in it, too: one of its days has 23 hours then."""
    await add(world, "daily", schedule="0 5 * * *")
    form = ("content-type", "application/x-www-form-urlencoded")
    await tab.ask("/do/zone", "POST", form, ("origin", "http://localhost"), body=b"zone=Europe%2FBerlin&back=%2F")
    page = await tab.show("/plan?span=week&at=12")
    assert "Mon 25 Mar 00:00 to Mon 1 Apr 00:00" in page.text and "clocks skip 1 h" in page.text


async def test_what_has_not_begun_is_not_drawn_as_if_it_ran(world: World, tab: Tab) -> None:
    """A held run stands from its due moment to now in the tone of its state, and a ready one is hollow."""
    for name in ("held", "ready"):
        await add(world, name, schedule="@yearly")
        run = await world.trigger(name)
        if name == "held":
            await world.service.runs.hold(run.id, "wait")
    world.pass_seconds(3600)
    page = await tab.show("/plan")
    drawn = [(each["class"], each["width"]) for each in page.named("rect") if each.get("height") == "15"]
    assert [kind for kind, _ in drawn] == ["f violet", "next"] and all(
        float((wide or "")[:-1]) > 4 for _, wide in drawn
    )
    assert "held · 1 h 00 min" in page.text and "ready · 1 h 00 min" in page.text


async def test_firings_of_a_stopped_job_are_not_to_come(world: World, tab: Tab) -> None:
    """They will be skipped: they are drawn thin below that note, and neither counted nor listed."""
    await add(world, "stopped", schedule="0 * * * *")
    assert re.search(r"1\d firings to come", (await tab.show("/plan")).text)
    await world.service.jobs.pause("stopped")
    page = await tab.show("/plan")
    assert " 0 firings to come" in page.text and "stopped every hour" not in page.text
    assert {each["height"] for each in page.named("rect") if each.get("class") == "next" and "y" in each} == {"5"}
