-- The tables of the recordings.
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE kinds (
    id int PRIMARY KEY, a_boolean boolean, a_smallint smallint, an_int int NOT NULL DEFAULT 7, a_bigint bigint,
    a_real real, a_double double precision, a_price numeric(10,2), a_big numeric(38,9), a_numeric numeric, a_money money,
    a_text text, a_varchar varchar(20), a_char char(5), a_bytea bytea, a_uuid uuid, a_json json, a_jsonb jsonb,
    a_date date, a_time time, a_time_3 time(3), a_timetz timetz, a_timestamp timestamp, a_timestamp_3 timestamp(3),
    a_timestamptz timestamptz, an_interval interval, some_ints int[], some_bigints bigint[], some_texts text[],
    some_prices numeric(10,2)[], a_mood mood, an_inet inet, a_range int4range
);
CREATE TABLE orders (
    id bigint PRIMARY KEY, customer text NOT NULL, price numeric(10,2), placed timestamp, notes text, body bytea, tags text[],
    numbers int[], more jsonb
);
CREATE TABLE orders_full (LIKE orders INCLUDING ALL);
ALTER TABLE orders_full REPLICA IDENTITY FULL;
CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL, email text);
CREATE TABLE sites (region text, number int, name text, PRIMARY KEY (region, number));
CREATE TABLE loose (id int, name text);
ALTER TABLE loose REPLICA IDENTITY FULL;
CREATE TABLE cleared (id int PRIMARY KEY, name text);
CREATE TABLE moved (id int PRIMARY KEY, notes text);
CREATE TABLE finish (id text PRIMARY KEY);
CREATE TABLE signals (id text PRIMARY KEY, type text, data text);
