"""Time arithmetic: pure values that answer "the next moment after t".

`parse` is the door for texts; each notation has a file: `cron` (with `cron_fields`, `special_days`, `cron_dialects`),
`repeating` (ISO 8601, with `duration` and `stamp`), `every`, `once`, `field_table`, `fluent`, and `combined` for unions
and exclusions. All of them come down to sets of wall-clock times (`wallclock` over `days`, `grid`), which
`zoned` lays on the time line of a zone (`zones`). `business_days` keeps any of them off `days_off`. `explain` says what
a text means, with `sentence` and `jumps`.
"""
