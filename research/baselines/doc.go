// Package baselines holds the methods that the papers compare their learners
// with. No server offers them: they are run from the file of a stream.
//
// A function is kept as the papers write it, f = Σ α_i k(x_i,·) over inputs of the
// past. A round of a method without a budget therefore costs as many kernel values
// as there were rounds, and n rounds cost n²/2. MaxRounds bounds them.
//
// From the AdaRaker paper (JMLR 2019), section 5, with the ridge 0.01 of section
// 5.2 and the ridge 0.005 and the logistic loss of section 5.3: RBF, POLY and
// LINEAR are OGD, then AvgMKL, OMKL, OMKL-B and M-Forgetron. Online runs them side
// by side. From the thesis of R. Camoriano (2017): NYTRO and Nyström KRLS of
// section 4.3, SGM and SIGM of chapter 6. They are not online: they learn a sample
// and are tested on other rows.
package baselines
