// Package papers takes published streams through the learners of a server and
// writes a report, tables, curves and figures. The figures that the papers
// print stand beside the measured ones.
package papers

// MissingLabel is the label of the rows of air_raw that have none.
const MissingLabel = -200

// Stream is a published stream, and how it is used.
type Stream struct {
	// Name is the name of its file, without ".csv.gz".
	Name string
	// Title describes it in one line.
	Title string
	// Source says where it comes from.
	Source Source
	// Signs says that the labels are -1 and +1. Learners are then compared by
	// the error rate: the share of rounds whose prediction has the wrong sign.
	Signs bool
	// AsPublished says that inputs and labels were published scaled and are used
	// unchanged. The columns of the others are scaled.
	AsPublished bool
	// SkipMissing leaves out the rows whose label is MissingLabel.
	SkipMissing bool
	// Unserved says why no learner can learn the stream; empty: they can.
	Unserved string
	// Published are the figures that the AdaRaker paper prints for it.
	Published []Figure
	// Notes are what a reader needs to compare.
	Notes []string
}

// Streams returns every stream that is known, in the order of the report.
func Streams() []Stream {
	var all []Stream
	for _, some := range [][]Stream{authors(), raw(), others(), signs()} {
		all = append(all, some...)
	}
	return all
}

// authors are the streams of quantities that the AdaRaker authors published.
func authors() []Stream {
	return []Stream{
		{
			Name: "air", Title: "Air quality, CO by the hour, as the AdaRaker authors published it",
			Source: Source{
				Rows: 7322, Inputs: 13,
				Original: "UCI Machine Learning Repository, Air Quality, https://doi.org/10.24432/C59K5F",
				Copy:     "https://github.com/N1cekiko/AdaRaker/blob/8562327d4631/dataset/AirData.mat",
				Licence:  airLicence,
				Preparation: "The values of the file, written with 9 significant digits. " +
					"The authors took the first 9,000 rows of air_raw, removed the rows with CO = -200, and scaled: " +
					"y = (CO − 0.1)/11.8; every input is (v + 200)/2975, so a missing reading is 0.",
				Columns: "x1 is the time of day as a fraction. " + airColumns + " The label is CO(GT), scaled.",
			},
			AsPublished: true, Published: airFigures(),
			Notes: []string{"Table 3 of the paper gives air quality 9,358 rows. The file in the repository of its authors has 7,322."},
		},
		{
			Name: "energy_adaraker", Title: "Energy use of a house every ten minutes, as the AdaRaker authors published it",
			Source: Source{
				Rows: 18604, Inputs: 25,
				Original: energyOriginal,
				Copy:     "https://github.com/N1cekiko/AdaRaker/blob/8562327d4631/dataset/EnergyData.mat",
				Licence:  uciLicence,
				Preparation: "The values of the file, written with 9 significant digits. " +
					"The authors took the rows with Appliances ≤ 300 in their order, removed date, rv1 and rv2, and scaled: " +
					"y = (Appliances − 10)/290; every input is (v + 6.6)/778.9, with one minimum and one maximum for all columns.",
				Columns: "x1 lights, x2 to x19 T1, RH_1, ..., T9, RH_9, x20 T_out, x21 Press_mm_hg, x22 RH_out, x23 Windspeed, x24 Visibility, x25 Tdewpoint. " +
					"The label is Appliances, scaled.",
			},
			AsPublished: true, Published: energyFigures(),
			Notes: []string{
				"Table 3 of the paper gives energy 27 inputs, and its text says that the label is the energy use of light fixtures. The file in the repository of its authors has 25 inputs, and its label is the energy use of appliances.",
				"All input columns are scaled by the same minimum and maximum. Therefore most of them vary very little.",
			},
		},
	}
}

// raw are the raw streams of the same measurements.
func raw() []Stream {
	const columns = "x2 to x19 T1, RH_1, ..., T9, RH_9, x20 T_out, x21 Press_mm_hg, x22 RH_out, x23 Windspeed, x24 Visibility, x25 Tdewpoint, " +
		"x26 rv1, x27 rv2."
	return []Stream{
		{
			Name: "air_raw", Title: "Air quality, CO by the hour, raw", SkipMissing: true,
			Source: Source{
				Rows: 9357, Inputs: 13,
				Original: "UCI Machine Learning Repository, Air Quality, https://doi.org/10.24432/C59K5F",
				Copy:     "https://github.com/24apanda/Dataset/blob/f3d63455ae56/AirQualityUCI.csv",
				Licence:  airLicence,
				Preparation: "Decimal commas become points. Empty rows at the end are removed. -200 stays where a value is missing, " +
					"in the inputs and in 1,683 labels.",
				Columns: "x1 is the hour of the day. " + airColumns + " The label is CO(GT) in mg/m³.",
			},
		},
		{
			Name: "energy", Title: "Energy use of a house every ten minutes, lights, raw",
			Source: Source{
				Rows: 19735, Inputs: 27, Original: energyOriginal, Copy: energyCopy, Licence: uciLicence,
				Preparation: "The column date is removed.",
				Columns:     "x1 Appliances, " + columns + " The label is lights in Wh.",
			},
			Notes: []string{"Three quarters of the labels are 0."},
		},
		{
			Name: "energy_appliances", Title: "Energy use of a house every ten minutes, appliances, raw",
			Source: Source{
				Rows: 19735, Inputs: 27, Original: energyOriginal, Copy: energyCopy, Licence: uciLicence,
				Preparation: "The column date is removed.",
				Columns:     "x1 lights, " + columns + " The label is Appliances in Wh.",
			},
		},
	}
}

// others are the other streams whose labels are no signs.
func others() []Stream {
	return []Stream{
		{
			Name: "casp", Title: "Physicochemical properties of protein structures, RMSD, raw",
			Source: Source{
				Rows: 45730, Inputs: 9,
				Original:    "UCI Machine Learning Repository, Physicochemical Properties of Protein Tertiary Structure, https://doi.org/10.24432/C5QW3H",
				Copy:        "https://github.com/sjwetzel/PublicTwinNeuralNetworkRegression/blob/8d61acc568a3/data/CASP.csv",
				Licence:     uciLicence,
				Preparation: "The column RMSD is moved to the end.",
				Columns:     "x1 to x9 are F1 to F9. The label is RMSD.",
			},
			Notes: []string{
				"The PKAWV papers show casp in figures without numbers, shuffled and scaled to [-1, 1]. A loss there is four times a loss here.",
				"The order of these rows in time is not known.",
			},
		},
		{
			Name: "bike", Title: "Bikes hired by the hour, raw",
			Source: Source{
				Rows: 17379, Inputs: 12,
				Original:    "UCI Machine Learning Repository, Bike Sharing, https://doi.org/10.24432/C5W894",
				Copy:        "https://github.com/Cionsa/Datasets/blob/2bef09bb7461/hour.csv",
				Licence:     uciLicence,
				Preparation: "The columns instant, dteday, casual and registered are removed. The last two sum to the label.",
				Columns:     "x1 season, x2 yr, x3 mnth, x4 hr, x5 holiday, x6 weekday, x7 workingday, x8 weathersit, x9 temp, x10 atemp, x11 hum, x12 windspeed. The label is cnt.",
			},
		},
		{
			Name: "digits", Title: "Handwritten digits, ten classes",
			Source: Source{
				Rows: 5620, Inputs: 64,
				Original:    "UCI Machine Learning Repository, Optical Recognition of Handwritten Digits, https://doi.org/10.24432/C50P49",
				Copy:        "https://github.com/logicalapple/cs7641-Supervised-Learning/tree/62f33c6bdb37, files optdigits.tra and optdigits.tes",
				Licence:     uciLicence,
				Preparation: "The rows of optdigits.tra, then the rows of optdigits.tes, unchanged.",
				Columns:     "x1 to x64 are counts of pixels in blocks, 0 to 16. The label is the digit.",
			},
			Unserved: "its labels are ten classes, not quantities; hindsight-research records takes it through a classifier",
		},
	}
}

// signs are the streams whose labels are -1 and +1.
func signs() []Stream {
	return []Stream{
		{
			Name: "movement", Title: "Movement of people from radio signal strength, as the AdaRaker authors published it",
			Source: Source{
				Rows: 13197, Inputs: 4,
				Original: "UCI Machine Learning Repository, Indoor User Movement Prediction from RSS data, https://doi.org/10.24432/C5761H",
				Copy:     "https://github.com/N1cekiko/AdaRaker/blob/8562327d4631/dataset/MovementData.mat",
				Licence:  uciLicence,
				Preparation: "The values of the file, unchanged: the time steps of all sequences, one sequence after another. " +
					"Every step has the label of its sequence.",
				Columns: "x1 to x4 are the signal strengths of four anchors, scaled to [-1, 1] by the UCI repository. The label is -1 or +1.",
			},
			Signs: true, AsPublished: true, Published: movementFigures(),
			Notes: []string{"Every step of a sequence has the label of the sequence, so the next label nearly always equals the last one. The last label is therefore a strong baseline here."},
		},
		{
			Name: "ijcnn1", Title: "IJCNN 2001 challenge", Signs: true,
			Source: Source{
				Rows: 141691, Inputs: 22,
				Original:    "LIBSVM data, ijcnn1, https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html",
				Copy:        "https://github.com/X-DataInitiative/tick-datasets/tree/9d959b6e53e1/binary/ijcnn1, files ijcnn1.trn.bz2 and ijcnn1.tst.bz2",
				Licence:     "LIBSVM states none; the repository of the copy is under BSD-3-Clause",
				Preparation: "The 49,990 rows of ijcnn1.trn (at LIBSVM: ijcnn1), then the 91,701 rows of ijcnn1.tst (at LIBSVM: ijcnn1.t). The sparse format is written as full rows.",
				Columns:     "x1 to x10 are the phase, period 10, one-hot; x11 and x12; x13 to x22 are a sliding window of one signal. The label is -1 or +1.",
			},
			Notes: []string{"The PKAWV papers show ijcnn1 in figures without numbers, shuffled. Here the rows are the training file of LIBSVM and then its test file, in their order."},
		},
		{
			Name: "elec2", Title: "Electricity prices of New South Wales, up or down", Signs: true,
			Source: Source{
				Rows: 45312, Inputs: 8,
				Original:    "Elec2: M. Harries, SPLICE-2 comparative evaluation: Electricity pricing, technical report, University of New South Wales, 1999",
				Copy:        "https://github.com/MaxHalford/maxhalford.github.io/blob/d2e2164548a9/static/files/datasets/electricity.zip",
				Licence:     "none is stated for the data; the repository of the copy is under MIT",
				Preparation: "UP becomes +1 and DOWN becomes -1. The other columns are unchanged; the distributor has scaled date, prices, demands and transfer to [0, 1].",
				Columns:     "x1 date, x2 day (1 to 7), x3 period, x4 nswprice, x5 nswdemand, x6 vicprice, x7 vicdemand, x8 transfer. The label is +1 for UP and -1 for DOWN.",
			},
		},
	}
}
