"""Sockets: frames in and answers out, in order, without copies; connections to other nodes. See README.md."""
