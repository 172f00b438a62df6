"""What a node is configured to do, from its properties file to changes at run time."""
