"""Files and named sets -> documents, in bounded memory."""
