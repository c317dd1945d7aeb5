package offsite

// Start is a copier over a bucket that a test made.
var Start = start
