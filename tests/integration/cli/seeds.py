"""Databases of other schedulers, made by hand as their own schemas have them (`docs/coming-from/moving.md`)."""

import sqlite3
from pathlib import Path

KOYOMI_MYSQL = """
CREATE TABLE jobs (
    id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, user VARCHAR(32) NOT NULL DEFAULT '',
    command VARCHAR(4096) NOT NULL, memo VARCHAR(512) NOT NULL DEFAULT '',
    created_on DATETIME NOT NULL, updated_at DATETIME NOT NULL);
CREATE TABLE job_times (
    id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, job_id INT UNSIGNED NOT NULL,
    year VARCHAR(4) NOT NULL DEFAULT '*', month VARCHAR(2) NOT NULL DEFAULT '*', day VARCHAR(2) NOT NULL DEFAULT '*',
    hour VARCHAR(2) NOT NULL DEFAULT '*', minute VARCHAR(2) NOT NULL DEFAULT '*',
    weekday VARCHAR(1) NOT NULL DEFAULT '*', created_on DATETIME NOT NULL, updated_at DATETIME NOT NULL,
    KEY idx_job_id (job_id));
CREATE TABLE semaphores (
    job_id INT UNSIGNED NOT NULL PRIMARY KEY, number SMALLINT UNSIGNED NOT NULL DEFAULT 0,
    run_host VARCHAR(256) NOT NULL DEFAULT '', run_pid INT UNSIGNED NOT NULL DEFAULT 0,
    run_date DATETIME NOT NULL DEFAULT '1970-01-01 00:00:00', created_on DATETIME NOT NULL,
    updated_at DATETIME NOT NULL);
"""
KOYOMI_SQLITE = """
CREATE TABLE jobs (id INTEGER PRIMARY KEY AUTOINCREMENT, user TEXT, command TEXT, memo TEXT, created_on TEXT,
    updated_at TEXT);
CREATE TABLE job_times (id INTEGER PRIMARY KEY AUTOINCREMENT, job_id TEXT, year TEXT, month TEXT, day TEXT, hour TEXT,
    minute TEXT, weekday TEXT, created_on TEXT, updated_at TEXT);
"""
_NOW = "'2015-05-29 00:25:13', '2015-05-29 00:25:13'"
KOYOMI_ROWS = f"""
INSERT INTO jobs (id, user, command, memo, created_on, updated_at) VALUES
    (1, '', 'echo hi', 'says hi', {_NOW}), (2, 'app', 'make report', '', {_NOW}), (3, '', 'echo once', '', {_NOW});
INSERT INTO job_times (job_id, year, month, day, hour, minute, weekday, created_on, updated_at) VALUES
    (1, '*', '*', '*', '*', '05', '*', {_NOW}), (1, '*', '*', '24', '9', '30', '7', {_NOW}),
    (2, '*', '*', '*', '03', '00', '1', {_NOW}), (3, '2015', '5', '24', '9', '5', '*', {_NOW});
"""
KOYOMI_LOCKS = f"""
INSERT INTO semaphores (job_id, run_host, run_pid, run_date, created_on, updated_at)
    VALUES (1, 'web1', 4711, '2015-05-30 09:05:00', {_NOW});
INSERT INTO semaphores (job_id, created_on, updated_at) VALUES (2, {_NOW}), (3, {_NOW});
"""
PERFECTSCHED = """
CREATE TABLE {table} (id VARCHAR(255) NOT NULL PRIMARY KEY, timeout INT NOT NULL, next_time INT NOT NULL,
    cron VARCHAR(128) NOT NULL, delay INT NOT NULL, data {blob} NOT NULL, timezone VARCHAR(255) NULL);
INSERT INTO {table} VALUES
    ('nightly', 1899999930, 1899999900, '*/5 * * * *', 30, '{{"type":"report","n":1}}', 'Asia/Tokyo'),
    ('ns.old', 1900022400, 1900022400, '@daily', 0, '', NULL);
"""
KEIJI = """
CREATE TABLE task_models (id {serial}, created_at {time}, updated_at {time}, deleted_at {time}, task_id text UNIQUE,
    name text UNIQUE, description text, schedule_info {json}, schedule text, last_execution_time {time},
    next_execution_time {time}, log_path text, slug text UNIQUE, type text, executable text, is_running {flag},
    is_queued {flag}, is_error {flag}, error_txt text, is_disabled {flag});
CREATE TABLE user_models (id {serial}, user_name text, password text, token text UNIQUE);
INSERT INTO task_models (id, created_at, deleted_at, task_id, name, description, schedule_info, schedule, log_path,
    slug, type, executable, is_running, is_queued, is_error, error_txt, is_disabled) VALUES
    (1, '2024-08-10 19:46:35', NULL, 'u1', 'ping', 'pings', '{{"units":"seconds","interval":10}}', 'x', '',
     'ping', 'HMS', '/x/ping.bin', {yes}, {no}, {no}, '', {no}),
    (2, '2024-08-10 19:46:35', NULL, 'u2', 'weekly', 'sums', '{{"day":"Friday","time":"10:00PM"}}', 'x', '',
     'weekly', 'DayTime', '/x/weekly.bin', {no}, {no}, {no}, '', {yes}),
    (3, '2024-08-10 19:46:35', NULL, 'u3', 'broken', 'fails', '{{"units":"hours","interval":1}}', 'x', '',
     'broken', 'HMS', '/x/broken.bin', {no}, {no}, {yes}, '[ task error ]: exit status 1', {no}),
    (4, '2024-08-10 19:46:35', '2024-08-14 10:00:00', 'u4', 'gone', '', '{{"units":"hours","interval":1}}', 'x', '',
     'gone', 'HMS', '/x/gone.bin', {no}, {no}, {no}, '', {no});
"""
KEIJI_SQLITE = KEIJI.format(serial="integer PRIMARY KEY", time="datetime", json="JSON", flag="numeric", yes=1, no=0)
KEIJI_POSTGRES = KEIJI.format(
    serial="bigserial PRIMARY KEY", time="timestamptz", json="jsonb", flag="boolean", yes="true", no="false"
)


def sqlite_file(path: Path, text: str) -> Path:
    """A database with these tables and rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript(text)
    connection.close()
    return path
