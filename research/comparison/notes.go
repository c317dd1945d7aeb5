package comparison

// notes are what a reader needs to compare the numbers of a stream with the printed
// ones.
func notes(stream string) []string {
	const polynomials = "With 27 inputs in [0, 1] the polynomial kernels have values up to 784 and 21,952. " +
		"The step 1/√T is too large for them, and also for AvgMKL if it is ten times as large."
	switch stream {
	case "air":
		return []string{
			"A tenth of the stated step gives the printed numbers of RBF with σ² = 1 and σ² = 10, LINEAR and OMKL within 4 %. " +
				"With the stated step we get 1.9 to 2.4 times less for RBF with σ² = 1, LINEAR and OMKL.",
			"No step gives the printed numbers of RBF with σ² = 0.1, POLY2, POLY3 and AvgMKL: ours at a tenth of the step are 18 to 56 % smaller. " +
				"The paper does not print the constant of its polynomial kernels; ours is 1. AvgMKL contains POLY2.",
			"OMKL-B with B = 50 and 100: the printed numbers lie between those of a hundredth and of a tenth of the stated step. The printed ones hardly change with B, ours do.",
			"With the best step of seven, ours and the printed ones differ by 7 to 18 % for RBF with σ² = 1, LINEAR and OMKL, in both directions. The paper prints 18.9 thousandths " +
				"for RBF with σ² = 10 and the best step, more than its 15.5 for the stated step, which is one of the seven.",
			"The file of the authors has 7,322 rows, and the paper's Table 3 says 9,358. T differs accordingly.",
		}
	case "energy_adaraker":
		return []string{
			"A tenth of the stated step gives the printed numbers of RBF and LINEAR within 1 %, of AvgMKL and OMKL within 3 %, of POLY2 and POLY3 within 10 %. With the stated step ours are 10 % smaller and more.",
			"With the best step of seven ours agree within 2 % for RBF and LINEAR, 3 % for OMKL-B and POLY3, and are 9 to 17 % smaller for AvgMKL, POLY2 and OMKL.",
			"OMKL-B: the printed numbers with the stated step lie between ours with a hundredth and with a tenth of it.",
		}
	case "movement":
		return []string{
			"The stated step gives the printed numbers of RBF, LINEAR and AvgMKL within 3 %, of OMKL within 4 %. POLY2 and POLY3 have 16 and 22 % fewer errors here. A tenth of the step gives them 3 % more and 0.1 % fewer.",
			"With the best step, which is the largest of the seven, RBF with σ² = 1 and 10, POLY2, POLY3, AvgMKL and OMKL do as well as the last label: it has 1.23 % of errors. The printed 1.10 % is less than that; none of the seven steps gives it.",
			"M-Forgetron has 1.37, 1.55 and 1.91 % with B = 10, 50 and 100, and the paper prints 1.60, 1.64 and 1.42 %. Here a smaller budget is better, because what matters is the label of the last rounds. " +
				"In the paper the order is not monotonic. It says only that the weights are updated \"as in (21)\"; here their loss is the number of mistakes.",
		}
	case "energy", "energy_appliances":
		return []string{"The paper prints no numbers for this scaling. " + polynomials}
	case "air_raw", "bike":
		return []string{"The paper prints no numbers for this stream or scaling."}
	case "casp":
		return []string{"The AdaRaker paper does not use this stream."}
	case "elec2":
		return []string{"The AdaRaker paper does not use this stream. With the largest step the methods do as well as the last label, which has 15.25 % of errors on these rounds."}
	case splitStream:
		return []string{
			"The AdaRaker paper does not use this stream. The thesis uses it with the split of its publishers: see below.",
			"9.83 % of the first 20,000 labels are +1, and most functions are negative nearly always.",
		}
	}
	return nil
}
