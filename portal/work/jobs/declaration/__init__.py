"""The declaration of a job's fields; REST's document and the client's part are made from it."""
