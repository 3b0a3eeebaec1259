"""The MariaDB and MySQL store: asyncmy and hand-written SQL."""
