"""The portal's web server: uvicorn, whose connections are bounded in number and in the time for which they stand still."""
