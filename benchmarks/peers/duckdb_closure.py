#!/usr/bin/env python3
"""All paths of a graph by DuckDB, one thread: prints edges plus paths.

usage: duckdb_closure.py EDGES.tsv
"""
import sys

import duckdb

QUERY = """
WITH RECURSIVE path(a, b) AS (
    SELECT a, b FROM edge
    UNION
    SELECT path.a, edge.b FROM path JOIN edge ON path.b = edge.a
)
SELECT (SELECT count(*) FROM edge) + (SELECT count(*) FROM path)
"""


def main():
    database = duckdb.connect(config={"threads": 1})
    # names become numbers first, which is faster than joining text
    database.execute(
        "CREATE TABLE text AS SELECT * FROM read_csv(?, delim='\t', header=false, "
        "columns={'a': 'VARCHAR', 'b': 'VARCHAR'})", [sys.argv[1]])
    database.execute(
        "CREATE TABLE name AS SELECT n, (row_number() OVER ())::INTEGER AS i "
        "FROM (SELECT a AS n FROM text UNION SELECT b FROM text)")
    database.execute(
        "CREATE TABLE edge AS SELECT x.i AS a, y.i AS b FROM text JOIN name x ON text.a = x.n "
        "JOIN name y ON text.b = y.n")
    print(database.execute(QUERY).fetchone()[0])


if __name__ == "__main__":
    main()
