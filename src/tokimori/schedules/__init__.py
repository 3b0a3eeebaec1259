"""Time arithmetic: pure values that answer "the next moment after t".

`parse` is the door for texts; each notation has a file: `cron` (with `cron_fields`; its dialects and field tables),
`intervals` (with `duration` and `stamp`), `fluent`, and `combined` for unions and exclusions. All of them come down to
sets of wall-clock times (`wallclock` over `days`, `grid`), which `zoned` lays on the time line of a zone (`zones`).
`business_days` keeps any of them off `days_off`. `counting` says how many moments a span has, by `minutes` of its days.
`explain` says what a text means, with `sentence` and `jumps`.
"""
