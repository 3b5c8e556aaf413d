"""The desk (P24): the web pages on which people grade, review and decide. A face, as the command line is."""
