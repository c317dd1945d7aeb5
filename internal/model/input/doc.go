// Package input turns records of named values into features, and learns what it
// needs for that: means, categories, the first time.
//
// A Schema is the declarations made ready. A Record has one value for each input,
// in the order of the declarations, so that the order of a request does not
// matter. Accept checks a record against the schema alone: whether it is accepted
// does not depend on what was learned before.
//
// An Encoder has the state. Encode only reads it. Learn takes one observed record
// in. A learner gets the features that Encode gave before Learn of the same
// record: what it learns is what Predict would have asked it. A category is so
// "other" in the record in which it first appears, and this is what teaches the
// learner what a new category is worth.
//
// # Features
//
// Every input has a fixed number of features, one input after another in the
// order of the declarations:
//
//	numeric        v                        load
//	boolean        0 or 1                   open
//	vector         the numbers              v[0] v[1] …
//	time           for every cycle, in the order hour_of_day, day_of_week, day_of_year,
//	               the sine and the cosine  at.hour_of_day.sin at.hour_of_day.cos
//	               with a trend, the days
//	               since the first time     at.trend
//	categorical    one 1 among 0 for each
//	               category that may have
//	               a feature, and other     city=Oslo … city.other
//	hash_buckets   one 1 or −1 among 0      city#0 city#1 …
//	text           how often each word
//	               occurs, by its bucket    note#0 note#1 …
//	               log(1 + the words)       note.words
//	missing: indicator or category          load.missing
//	key            the key of the category  city.key, last
//
// A feature for a category that has not appeared yet is called city[3].
//
// Of a numeric v, clip moves v to the nearest end of its range; log1p then takes it
// as sign(v) log(1 + |v|), which every number has.
//
// Where auto learns classes, tokens follow the features, 1,024 of each text: the keys of the first 512 words,
// and from place 512 on the tokens of the pairs of neighboring words, each pair as a text with one space
// between its words, in lower case. The place of the text among the texts is added to the hash before
// the finalizer. The token 0 is none.
//
// A missing value with an indicator has the running mean of each of its features
// over all observations that had one, 0 before the first; its indicator is 1. A
// missing category is 1 in a feature of its own. The feature is 0 otherwise.
//
// # Keys
//
// A key identifies a category, whether or not the category has a feature: it is the highest
// 52 bits of the hash of the category, 1 in place of 0. A learner of effects looks keys up
// and does no arithmetic with them. A missing category has a key of its own, the one of the
// byte 0xff, which is no text. Missing is so a category that may have an effect, such as
// "no agent"; the key 0 never occurs. Two of 65,536 keys are equal with a probability of
// 5e-7; they then have one effect.
//
// The encoder remembers texts of keys, so that effects can be named: up to a number over all
// inputs and 32 bytes of text for each, the least recently observed leaving first.
//
// # Times
//
// Hour, day of the week and day of the year are read in the zone of the text: "18:00+02:00" is
// the hour 18. A day begins at 0:00, a week on Monday, a year on 1 January; the angle
// is 2π times the part of the cycle that has passed, a year having 365 or 366 days. A
// trend counts days of 86,400 seconds; it is negative before the first observed time
// and 0 as long as there is none.
//
// # Hashes
//
// The hash of a category is FNV-1a with 64 bits of its UTF-8 bytes, mixed by the
// finalizer of MurmurHash3 so that every bit of it depends on every byte:
//
//	h = 14695981039346656037; for every byte b: h = (h XOR b) · 1099511628211
//	h = h XOR h>>33; h = h · 0xff51afd7ed558ccd
//	h = h XOR h>>33; h = h · 0xc4ceb9fe1a85ec53; h = h XOR h>>33
//
// modulo 2⁶⁴. The bucket is (h>>1) modulo hash_buckets, and the sign is −1 if h is
// odd. Of "Oslo" h is 0xdc68eec548e3bfdd.
//
// A word of a text is a longest run of ASCII letters and digits and of bytes from 0x80 on, its ASCII
// letters in lower case. Its bucket is the one of a category; words have no sign, so that features are
// counts. A missing text has no words.
//
// A number that is a category or a text is its shortest decimal text that reads back as the same
// number: 17, 0.1, 1e+21. A boolean is true or false.
//
// # Shift
//
// The population stability index compares the last 512 records with all records
// before them, over eleven bins, the last for missing values:
//
//	PSI = Σ (p − q) ln(p/q),  p = (recent + ½)/(512 + 11/2),  q = (before + ½)/(n + 11/2)
//
// Without a change its expectation is about 10 (1/512 + 1/n). By custom 0.1 is a
// moderate shift and 0.25 a large one. Bins of numbers end at the deciles of the first
// 100 values; of a vector the mean of its numbers counts. Categories have the bins of
// the first nine, and one for the others; hashes are spread over ten. A time has no
// index: it always moves. A text of words has none either.
//
// The state counts records in blocks of 512, so that it stays small. After k records of a
// block, recent is the count of these k and (512−k)/512 times the count of the block. That is
// the count of the last 512 records unless the values changed within the block.
//
// Sources: Weinberger, Dasgupta, Langford, Smola and Attenberg, Feature Hashing for
// Large Scale Multitask Learning (ICML 2009), for signed hashing; Siddiqi, Credit Risk
// Scorecards (2006), for the index and its thresholds.
package input
