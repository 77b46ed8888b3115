"""The declaration of a job's fields, and what is made from it: REST's document and the client's part."""
