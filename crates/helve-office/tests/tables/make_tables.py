#!/usr/bin/env python3
"""Computes what the tests of helve-office compare with: rules.txt, local_times.txt and series.txt.

    pip install python-dateutil==2.9.0.post0 && python3 make_tables.py

Rules come from dateutil on local times without zones, everything about zones from Python's zoneinfo. Run by hand;
the output is committed. Left out, because dateutil differs from RFC 5545 there: BYWEEKNO without BYDAY (it takes all
seven days), and BYDAY with and without a number mixed (it takes days that are both).
"""
import pathlib
import random
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from dateutil.rrule import rrulestr

HERE = pathlib.Path(__file__).parent
FORM = "%Y%m%dT%H%M%S"
SHOWN_MAX = 40

# The examples of RFC 5545 3.8.5.3 and the errata, and rules that real calendars have.
RULES = """
FREQ=DAILY;COUNT=10
FREQ=DAILY;INTERVAL=2
FREQ=DAILY;INTERVAL=10;COUNT=5
FREQ=YEARLY;BYMONTH=1;BYDAY=SU,MO,TU,WE,TH,FR,SA
FREQ=DAILY;BYMONTH=1
FREQ=WEEKLY;COUNT=10
FREQ=WEEKLY;INTERVAL=2;WKST=SU
FREQ=WEEKLY;COUNT=10;WKST=SU;BYDAY=TU,TH
FREQ=WEEKLY;INTERVAL=2;WKST=SU;BYDAY=MO,WE,FR
FREQ=WEEKLY;INTERVAL=2;COUNT=8;WKST=SU;BYDAY=TU,TH
FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=MO
FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU
FREQ=MONTHLY;COUNT=10;BYDAY=1FR
FREQ=MONTHLY;INTERVAL=2;COUNT=10;BYDAY=1SU,-1SU
FREQ=MONTHLY;COUNT=6;BYDAY=-2MO
FREQ=MONTHLY;BYMONTHDAY=-3
FREQ=MONTHLY;COUNT=10;BYMONTHDAY=2,15
FREQ=MONTHLY;COUNT=10;BYMONTHDAY=1,-1
FREQ=MONTHLY;INTERVAL=18;COUNT=10;BYMONTHDAY=10,11,12,13,14,15
FREQ=MONTHLY;INTERVAL=2;BYDAY=TU
FREQ=YEARLY;COUNT=10;BYMONTH=6,7
FREQ=YEARLY;INTERVAL=2;COUNT=10;BYMONTH=1,2,3
FREQ=YEARLY;INTERVAL=3;COUNT=10;BYYEARDAY=1,100,200
FREQ=YEARLY;BYDAY=20MO
FREQ=YEARLY;BYDAY=-1FR
FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO
FREQ=YEARLY;BYWEEKNO=1;BYDAY=MO,SU
FREQ=YEARLY;BYWEEKNO=-1;BYDAY=MO,SU
FREQ=YEARLY;BYWEEKNO=53;BYDAY=TH
FREQ=YEARLY;BYWEEKNO=1,52,53;BYDAY=MO,TU,SU;WKST=SU
FREQ=YEARLY;BYMONTH=3;BYDAY=TH
FREQ=YEARLY;BYDAY=TH;BYMONTH=6,7,8
FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13
FREQ=MONTHLY;BYDAY=SA;BYMONTHDAY=7,8,9,10,11,12,13
FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8
FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3
FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2
FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1
FREQ=HOURLY;INTERVAL=3;COUNT=12
FREQ=MINUTELY;INTERVAL=15;COUNT=6
FREQ=MINUTELY;INTERVAL=90;COUNT=4
FREQ=DAILY;BYHOUR=9,10,11,12,13,14,15,16;BYMINUTE=0,20,40
FREQ=MINUTELY;INTERVAL=20;BYHOUR=9,10,11,12,13,14,15,16
FREQ=MONTHLY;BYMONTHDAY=15,30;COUNT=5
FREQ=MONTHLY;BYMONTHDAY=31
FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29
FREQ=YEARLY;BYYEARDAY=366
FREQ=YEARLY;BYYEARDAY=-1,-366
FREQ=YEARLY
FREQ=MONTHLY
FREQ=HOURLY;BYDAY=MO;BYHOUR=8,20
FREQ=HOURLY;INTERVAL=5;BYMONTH=2
FREQ=MINUTELY;BYHOUR=3;BYMINUTE=7,8
FREQ=SECONDLY;INTERVAL=7;BYMINUTE=59;BYHOUR=23
FREQ=SECONDLY;BYMONTHDAY=1;BYHOUR=0;BYMINUTE=0;BYSECOND=0,30
FREQ=HOURLY;BYMINUTE=15,45;BYSETPOS=-1
FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU
FREQ=YEARLY;BYMONTH=3;BYDAY=2SU
FREQ=DAILY;BYDAY=MO,TU,WE,TH,FR;INTERVAL=3
FREQ=WEEKLY;BYMONTH=12,1;BYDAY=MO,SU
FREQ=YEARLY;BYMONTH=1,12;BYHOUR=6,18;BYSETPOS=1,-1
""".split()


def random_rule(rng):
    freq = rng.choice(["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY"])
    parts = {"FREQ": freq}
    some = lambda values, most: ",".join(map(str, rng.sample(list(values), rng.randint(1, most))))
    if rng.random() < 0.5:
        parts["INTERVAL"] = rng.randint(1, 9)
    if rng.random() < 0.4:
        parts["BYMONTH"] = some(range(1, 13), 4)
    if rng.random() < 0.3 and freq != "WEEKLY":
        parts["BYMONTHDAY"] = some([d for d in range(-31, 32) if d], 8)
    if rng.random() < 0.15 and freq == "YEARLY":
        parts["BYYEARDAY"] = some([d for d in range(-366, 367) if d], 20)
    days = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]
    if rng.random() < 0.5:
        picked = rng.sample(days, rng.randint(1, 4))
        if freq in ("MONTHLY", "YEARLY") and rng.random() < 0.5:
            picked = [f"{rng.choice([1, 2, 3, 4, 5, -1, -2])}{day}" for day in picked]
        parts["BYDAY"] = ",".join(picked)
        if freq == "YEARLY" and not picked[0][0] in "-12345" and rng.random() < 0.3:
            parts["BYWEEKNO"] = some([w for w in range(-53, 54) if w], 10)
    if rng.random() < 0.3:
        parts["BYHOUR"] = some(range(24), 4)
    if rng.random() < 0.2:
        parts["BYMINUTE"] = some(range(60), 4)
    # Below a month a position may never be there, and dateutil looks for it until the year 9999.
    if rng.random() < 0.3 and len(parts) > 2 and freq in ("MONTHLY", "YEARLY"):
        parts["BYSETPOS"] = some([1, 2, 3, -1, -2], 2)
    if rng.random() < 0.3:
        parts["WKST"] = rng.choice(days)
    if rng.random() < 0.3:
        parts["COUNT"] = rng.randint(1, 30)
    return ";".join(f"{name}={value}" for name, value in parts.items())


def fires(rule, start, low, high):
    """The first occurrences in a window, and the window cut behind them, so that no line is long."""
    found = []
    # With an end, because dateutil looks for what never happens until the year 9999.
    ending = rrulestr(rule, dtstart=start).replace(until=high)
    for at in ending.xafter(low - timedelta(seconds=1), count=SHOWN_MAX + 1, inc=False):
        if at > high:
            break
        found.append(at)
    if len(found) > SHOWN_MAX:
        high = found[SHOWN_MAX - 1]
        found = found[:SHOWN_MAX]
    return high, found


def rules():
    rng = random.Random(5545)
    lines = []
    cases = [(rule, datetime(1997, 9, 2, 9, 0), datetime(1997, 9, 2), datetime(2003, 1, 1)) for rule in RULES]
    for _ in range(300):
        start = datetime(rng.randint(1995, 2024), rng.randint(1, 12), rng.randint(1, 28), rng.randint(0, 23), rng.randint(0, 59), rng.choice([0, 0, 30]))
        low = start + timedelta(days=rng.choice([0, 0, 1, 40, 400, 3000]), hours=rng.randint(0, 30))
        cases.append((random_rule(rng), start, low, low + timedelta(days=rng.choice([30, 400, 2500]))))
    for rule, start, low, high in cases:
        # dateutil goes through every minute.
        for freq, days in (("SECONDLY", 1), ("MINUTELY", 4), ("HOURLY", 40)):
            if freq in rule:
                start, high = max(start, low - timedelta(days=days / 2)), min(high, low + timedelta(days=days))
        try:
            high, found = fires(rule, start, low, high)
        except ValueError:
            # dateutil refuses an INTERVAL that never meets its BYHOUR or BYMINUTE.
            continue
        shown = ",".join(at.strftime(FORM) for at in found)
        lines.append("\t".join([rule, start.strftime(FORM), low.strftime(FORM), high.strftime(FORM), shown]))
    return lines


ZONES = """Europe/Berlin Europe/London Europe/Dublin America/New_York America/Los_Angeles America/St_Johns
America/Sao_Paulo America/Asuncion Australia/Lord_Howe Australia/Sydney Pacific/Apia Pacific/Chatham
Asia/Kolkata Asia/Kathmandu Asia/Tokyo Asia/Tehran Asia/Jerusalem Africa/Cairo Pacific/Kiritimati
America/Havana UTC""".split()


def changes(zone):
    """When a zone changes in some years, by looking at every hour."""
    at = datetime(2005, 1, 1, tzinfo=timezone.utc)
    last = at.astimezone(zone).utcoffset()
    while at.year < 2030:
        at += timedelta(hours=1)
        offset = at.astimezone(zone).utcoffset()
        if offset != last and at.year in (2011, 2018, 2019, 2025, 2026, 2027):
            yield at
        last = offset


def local_times():
    lines = []
    for name in ZONES:
        zone = ZoneInfo(name)
        times = {datetime(year, month, 15, 12) for year in range(2005, 2030, 3) for month in (1, 7)}
        for change in changes(zone):
            for minutes in (-90, -60, -31, -1, 0, 29, 30, 59, 60, 90):
                times.add((change + timedelta(minutes=minutes)).astimezone(zone).replace(tzinfo=None))
            before = (change - timedelta(minutes=1)).astimezone(zone).replace(tzinfo=None)
            times.update(before + timedelta(minutes=minutes) for minutes in (1, 31))
        for local in sorted(times):
            # fold=0: in a gap the offset before it, in a fold the first of the two. RFC 5545 3.3.5 says the same.
            instant = local.replace(tzinfo=zone, fold=0).astimezone(timezone.utc)
            lines.append("\t".join([name, local.strftime(FORM), instant.strftime(FORM)]))
    return lines


SERIES = [
    ("Europe/Berlin", "20260320T023000", "FREQ=DAILY", "20260325T000000", "20260402T000000"),
    ("Europe/Berlin", "20261020T023000", "FREQ=DAILY", "20261022T000000", "20261030T000000"),
    ("Europe/Berlin", "20260101T090000", "FREQ=WEEKLY;BYDAY=MO,FR", "20260301T000000", "20260501T000000"),
    ("America/New_York", "20260307T013000", "FREQ=HOURLY;COUNT=60", "20260307T000000", "20260312T000000"),
    ("America/New_York", "20261031T004500", "FREQ=HOURLY;INTERVAL=2;COUNT=30", "20261031T000000", "20261104T000000"),
    ("America/New_York", "20200308T023000", "FREQ=YEARLY;BYMONTH=3;BYDAY=2SU", "20200101T000000", "20300101T000000"),
    ("Australia/Lord_Howe", "20261001T021500", "FREQ=DAILY;COUNT=9", "20261001T000000", "20261020T000000"),
    ("Pacific/Apia", "20111225T100000", "FREQ=DAILY;COUNT=10", "20111201T000000", "20120201T000000"),
    ("America/Sao_Paulo", "20181020T000000", "FREQ=WEEKLY;COUNT=8", "20181001T000000", "20190101T000000"),
    ("America/Havana", "20260301T003000", "FREQ=DAILY;COUNT=15", "20260301T000000", "20260401T000000"),
    ("Asia/Kathmandu", "20260131T120000", "FREQ=MONTHLY;BYMONTHDAY=31,-1", "20260101T000000", "20270101T000000"),
    ("Pacific/Chatham", "20260401T024500", "FREQ=DAILY;COUNT=10", "20260401T000000", "20260501T000000"),
    ("Europe/Dublin", "20260329T013000", "FREQ=MONTHLY;BYDAY=-1SU", "20260101T000000", "20270101T000000"),
    ("UTC", "20240229T235900", "FREQ=YEARLY", "20240101T000000", "20370101T000000"),
]


def series():
    lines = []
    for name, start, rule, low, high in SERIES:
        zone = ZoneInfo(name)
        parse = lambda text: datetime.strptime(text, FORM)
        found = []
        for local in rrulestr(rule, dtstart=parse(start)).between(parse(low), parse(high), inc=True):
            instant = local.replace(tzinfo=zone, fold=0).astimezone(timezone.utc)
            offset = instant.astimezone(zone).utcoffset()
            minutes = int(offset.total_seconds() // 60)
            found.append(f"{instant.strftime(FORM)}Z{minutes:+d}")
        lines.append("\t".join([name, start, rule, low, high, ",".join(found)]))
    return lines


for name, make in (("rules.txt", rules), ("local_times.txt", local_times), ("series.txt", series)):
    lines = make()
    (HERE / name).write_text("\n".join(lines) + "\n")
    print(name, len(lines))
