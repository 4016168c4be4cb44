// RateModel: learns how long n units of work take: seconds = fixed + n × slope, from measurements
// of which the newest count most.
//
//   RateModel model;  model.Add(1000, 0.0021);
//   if (model.known()) seconds = model.fixed() + 5000 * model.slope();
//
// A least-squares line over exponentially decayed measurements. While their sizes are too much
// alike to tell the two numbers apart, the fixed part stays what it was and the slope takes the
// rest.
//
// Thread-safety: a value type. Invariants: whatever was added, slope() is finite and > 0, fixed()
// is finite and >= 0: what makes no sense is passed over.
#ifndef TANDEM_WORKER_CORE_RATE_MODEL_H_
#define TANDEM_WORKER_CORE_RATE_MODEL_H_

namespace tandem::worker {

class RateModel {
 public:
  // All that it has learned, as plain data: to be kept.
  struct Sums {
    // Decayed: measurements, and the sums of units, seconds, units² and units × seconds.
    double weight = 0, n = 0, s = 0, nn = 0, ns = 0;
    double fixed = 0;

    // Could a model have learned this?
    bool Sound() const;
    friend bool operator==(const Sums&, const Sums&) = default;
  };

  RateModel() = default;
  // REQUIRES: sums.Sound().
  explicit RateModel(const Sums& sums);
  const Sums& sums() const { return sums_; }

  // Is it a measurement: units > 0, seconds >= 0, both finite and within all measure?
  static bool Takes(double units, double seconds);
  // True: it was taken.
  bool Add(double units, double seconds);

  bool known() const { return sums_.weight > 0; }
  // Seconds a unit, > 0. REQUIRES: known(), as all below.
  double slope() const { return slope_; }
  double fixed() const { return sums_.fixed; }

 private:
  void Fit();
  void TakeSlope();

  Sums sums_;
  double slope_ = 0;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_CORE_RATE_MODEL_H_
