"""One module per API: authorise, validate, do, answer. Importing a module puts its handler into the table."""
